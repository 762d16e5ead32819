"""Where a value comes from, and what a cloned repository may set."""

from dataclasses import fields
from pathlib import Path

import pytest

from metier.assemble.settings import SETTINGS, described, load
from metier.assemble.workshop import Workshop
from metier.errors import ConfigError
from metier.types import Config


def setup(tmp_path: Path, user: str = "", project: str = "") -> tuple[dict[str, str], Path]:
    home, cwd = tmp_path / "home", tmp_path / "repo" / "deep"
    home.mkdir()
    cwd.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (home / "metier.toml").write_text(user, encoding="utf-8")
    (tmp_path / "repo" / "metier.toml").write_text(project, encoding="utf-8")
    return {"METIER_HOME": str(home)}, cwd


def test_flags_beat_environment_beats_user_beats_project_beats_default(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, user="k = 3\nbudget = 30", project="k = 2\nbudget = 20\ncards = 4")
    config, _ = load(env=env, cwd=cwd)
    assert (config.k, config.budget, config.cards) == (3, 30, 4)
    config, _ = load(env={**env, "METIER_K": "7"}, cwd=cwd)
    assert config.k == 7
    config, _ = load(flags={"k": 9}, env={**env, "METIER_K": "7"}, cwd=cwd)
    assert (config.k, config.sources["k"], config.sources["cards"]) == (
        9,
        "flag",
        str(tmp_path / "repo" / "metier.toml"),
    )


@pytest.mark.parametrize(
    "hostile",
    ['encoder = "openai:x@http://evil"', '[llm]\nmodel = "m@http://evil"', "[gate]\neta = -1.0", '[log]\ntext = "full"',
     '[gate]\nallow = ["evil"]', 'stack = "x"', '[gate]\nsafety-critical = ["evil"]', "[hook]\ndeadline = 60"],
)  # fmt: skip
def test_a_project_may_not_set_anything_that_reaches_out_or_grants_trust(tmp_path: Path, hostile: str) -> None:
    env, cwd = setup(tmp_path, project=hostile)
    config, warnings = load(env=env, cwd=cwd)
    default, _ = load(env=env, cwd=tmp_path / "home")
    assert config == default and "is ignored: a project may set only" in warnings[0]


def test_skill_paths_of_a_project_are_relative_to_its_file(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, project='skills = ["our-skills"]')
    assert load(env=env, cwd=cwd)[0].skills == (str(tmp_path / "repo" / "our-skills"),)


def test_a_project_file_above_the_repository_counts_not(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path)
    (tmp_path / "metier.toml").write_text("k = 1", encoding="utf-8")
    assert load(env=env, cwd=cwd)[0].k == Config("").k


@pytest.mark.parametrize(
    ("user", "message"),
    [("k = 0", "'k' is 0; it takes a whole number from 1"), ("alpha = 2.0", "'alpha' is 2.0"), ('k = "many"', "'many'"),
     ("encodr = 'x'", "no setting 'encodr'; did you mean 'encoder'"), ("k = [", "not valid TOML"),
     ("exclude = [1]", "a list of strings"), ("[gate]\nexplore = true", "'gate.explore' is True")],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_its_place_and_what_it_takes(tmp_path: Path, user: str, message: str) -> None:
    env, cwd = setup(tmp_path, user=user)
    with pytest.raises(ConfigError) as caught:
        load(env=env, cwd=cwd)
    assert message in str(caught.value) and "\n" not in str(caught.value).split("(")[0]


def test_tables_and_lists_are_read_from_file_and_environment(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, user='[gate]\netas = { pdf = 0.1 }\nsafety_critical = ["a", "b"]')
    config, _ = load(env={**env, "METIER_GATE_FAMILIES": "x=docs,y=docs"}, cwd=cwd)
    assert config.etas == {"pdf": 0.1} and config.safety_critical == ("a", "b")
    assert config.families == {"x": "docs", "y": "docs"}


def test_requests_of_agents_are_hashed_in_the_log_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path)
    assert load(env=env, cwd=cwd)[0].log_text == "full"
    assert load(flags={"host": "claude-code"}, env=env, cwd=cwd)[0].log_text == "hash"
    assert load(flags={"host": "mcp", "log_text": "full"}, env=env, cwd=cwd)[0].log_text == "full"


def test_every_field_of_the_configuration_can_be_set_once() -> None:
    assert sorted(s.field for s in SETTINGS) == sorted(
        f.name for f in fields(Config) if f.name not in ("home", "sources")
    )
    assert len({s.key for s in SETTINGS}) == len(SETTINGS)


def test_every_setting_is_described_with_its_source(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, user="k = 3")
    rows = {key: (value, source) for key, value, source in described(load(env=env, cwd=cwd)[0])}
    assert rows["k"] == (3, str(tmp_path / "home" / "metier.toml")) and rows["budget"][1] == "default"


@pytest.mark.parametrize(
    "broken",
    [b"k = [", b"\xff\xfe\x00", b"k = 1\0", b"x = " + b"[" * 5000 + b"]" * 5000, b".".join([b"a"] * 3000) + b" = 1",
     b"k = 1\n" + b"# x\n" * 300_000],
)  # fmt: skip
def test_a_strangers_broken_file_costs_nobody_an_answer(tmp_path: Path, broken: bytes) -> None:
    env, cwd = setup(tmp_path, user="budget = 30")
    (tmp_path / "repo" / "metier.toml").write_bytes(broken)
    config, warnings = load(env=env, cwd=cwd)
    assert config.budget == 30
    assert all("metier.toml" in warning and "ignored" in warning for warning in warnings) and warnings


@pytest.mark.parametrize("wrong", ['k = "x"', "k = -5", "k = inf", "k = 2020-01-01", "exclude = 5", "[skills]\na = 1"])
def test_a_wrong_value_in_a_projects_file_is_a_warning_and_the_rest_of_it_counts(tmp_path: Path, wrong: str) -> None:
    env, cwd = setup(tmp_path, project=f"cards = 4\n{wrong}")
    config, warnings = load(env=env, cwd=cwd)
    assert (config.cards, config.k, config.exclude) == (4, load(env={}, cwd=tmp_path)[0].k, ())
    assert len(warnings) == 1 and warnings[0].endswith("it is ignored")


def test_a_project_of_a_thousand_foreign_keys_is_told_in_few_lines(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, project="\n".join(f"a{n} = 1" for n in range(1000)))
    _, warnings = load(env=env, cwd=cwd)
    assert len(warnings) < 30 and "980 more keys" in warnings[-1]


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="needs a file that blocks its readers")
def test_a_projects_file_that_links_to_a_device_or_to_proc_is_not_waited_for(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, user="budget = 30")
    for target in ("/proc/kmsg", "/dev/zero"):
        (tmp_path / "repo" / "metier.toml").unlink()
        (tmp_path / "repo" / "metier.toml").symlink_to(target)
        assert load(env=env, cwd=cwd)[0].budget == 30


def test_a_home_or_skills_of_an_unknown_user_or_of_an_impossible_name_break_nothing(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, project='skills = ["~nobody-of-that-name/x", "a\\u0000b"]')
    config, _ = load(env=env, cwd=cwd)
    assert config.skills[0].endswith("~nobody-of-that-name/x")
    for home in ("~nobody-of-that-name/x", "a" * 5000):
        assert load(env={"METIER_HOME": home}, cwd=tmp_path)[0].home.endswith(home)
    assert Workshop(config, cwd=cwd).router().warnings, "said, and the other places are still looked at"


@pytest.mark.parametrize("path", ["/", "~", "..", "../..", "deep/../../..", "/etc/passwd", "/dev/zero", "out", "out/x"])
def test_a_projects_skills_lie_inside_its_repository(path: str, tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, project=f'skills = ["{path}", "deep/ours", "."]')
    (tmp_path / "repo" / "out").symlink_to("/")
    config, warnings = load(env=env, cwd=cwd)
    assert config.skills == (str(tmp_path / "repo" / "deep" / "ours"), str(tmp_path / "repo"))
    (said,) = warnings
    assert said.startswith(f"{tmp_path / 'repo' / 'metier.toml'}: 'skills' names {path!r}, which lies outside")
    assert said.endswith(f"or run: metier index {path}")


def test_the_users_own_file_may_name_any_skills(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, user='skills = ["/", "../x"]')
    assert load(env=env, cwd=cwd) == (load(env=env, cwd=cwd)[0], ()) and load(env=env, cwd=cwd)[0].skills == (
        "/",
        "../x",
    )


def test_outside_a_repository_a_file_in_a_folder_above_counts_not(tmp_path: Path) -> None:
    below = tmp_path / "shared" / "mine"
    below.mkdir(parents=True)
    (tmp_path / "shared" / "metier.toml").write_text('k = 1\nskills = ["."]', encoding="utf-8")
    env = {"METIER_HOME": str(tmp_path / "home")}
    assert load(env=env, cwd=below)[0].k == Config("").k and load(env=env, cwd=below.parent)[0].k == 1


def test_a_project_that_names_a_file_that_is_no_library_hides_no_other_skills(tmp_path: Path) -> None:
    env, cwd = setup(tmp_path, project='skills = ["../repo/metier.toml", "broken"]')
    (tmp_path / "repo" / "broken").symlink_to(tmp_path / "repo" / "nowhere")
    (cwd / "skills" / "pdf").mkdir(parents=True)
    (cwd / "skills" / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: d\n---\nb\n", encoding="utf-8")
    shop = Workshop(load(flags={"encoder": "hash"}, env=env, cwd=cwd)[0], cwd=cwd)
    assert "pdf" in [s.name for s in shop.library.skills]
    assert [w for w in shop.warnings if "metier.toml: no folder of skills" in w]
