"""What people and agents touch. Files here never import each other, but for `wire`; the CLI may import all."""
