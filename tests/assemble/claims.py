"""Rules of docs/how-it-works/disclose.md and the tests that hold them."""

CLAIMS = {
    "5.1": ["tests/test_disclose.py::test_cards_say_how_to_load_on_the_host_at_hand"],
    "5.2": [
        "tests/test_disclose.py::test_the_text_never_costs_more_than_the_budget",
        "tests/test_disclose.py::test_a_body_over_the_budget_is_never_cut_its_card_goes_out",
    ],
    "5.3": [
        "tests/test_disclose.py::test_one_body_is_loaded_however_many_would_be",
        "tests/test_disclose.py::test_a_cover_may_load_three_and_comes_first",
    ],
    "5.4": ["tests/edge/test_cli.py::test_route_ranks_by_the_body_even_where_the_card_says_nothing"],
    "5.5": ["tests/test_disclose.py::test_a_body_cannot_forge_the_end_of_its_fence"],
    "5.6": ["tests/test_router.py::test_what_a_session_was_shown_is_remembered_across_requests"],
}
