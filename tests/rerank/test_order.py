import time

import pytest

from metier.rerank.order import compared, orders

REPORT = "show me the quality report first, before any update is made"


@pytest.mark.parametrize(
    ("wanted", "said", "sense"),
    [
        (REPORT, "ALWAYS output the quality report BEFORE making any updates.", 1),
        (REPORT, "Make the updates first and output the quality report at the end.", -1),
        ("Dry run first, leave main alone", "Always run a dry-run before any real deletion:", 1),
        ("Dry run first, leave main alone", "Delete first; a dry-run afterwards shows what is left:", -1),
        ("the Azure reporter listed after the HTML one", "list HTML reporter before Azure reporter", 1),
        ("the Azure reporter listed after the HTML one", "list HTML reporter after Azure reporter", -1),
        ("input files get validated first", "Before running any analysis, validate BAM and BED files", 1),
        ("input files get validated first", "Once the tracks are made, validate BAM and BED files", -1),
        ("check coverage before training", "Look at the coverage when training is over", -1),
        ("the summary, before the table of contents", "the summary follows the table of contents", -1),
        ("validate before you deploy", "Never deploy after validating", -1),
        ("validate before you deploy", "do not deploy after validating", -1),
        ("validate before you deploy", "Never deploy before validating", 1),
        ("validate before you deploy", "Do not forget to validate before you deploy", 1),
        ("validate before you deploy", "There is no excuse not to validate before you deploy", 1),
        ("build the image before you push it", "Build the image, and after that push it", 1),
        ("build the image before you push it", "Push the image. After that, build it", -1),
        ("build before you push", "Build; after this push", 1),
        ("check it before you deploy", "Deploy after this check", 1),
        ("build before you push", "First build, then push", 1),
        ("build before you push", "First push, and then build", -1),
        ("water the plants before lunch", "Look after the plants", 0),
        ("check coverage before training", "Wash the apple before lunch", 0),
        ("deploy, then tell me", "load it for the first time, all at once", 0),
    ],
)
def test_an_order_is_recognised_however_it_is_put(wanted: str, said: str, sense: int) -> None:
    assert compared(orders(wanted), orders(said)) == sense


def test_a_text_without_a_marker_states_no_order() -> None:
    assert orders("Validate the file and write the report.") == ()


def test_markers_without_end_cost_no_more_than_their_length() -> None:
    began = time.process_time()
    for bait in ("before " * 20_000, "first, " * 20_000, "when a is " * 20_000, "x" * 200_000):
        orders(bait)
    assert time.process_time() - began < 20.0
