"""Rules of docs/how-it-works/rerank.md and the tests that hold them."""

HERE = "tests/rerank"
CLAIMS = {
    "2.1": [f"{HERE}/test_extract.py::test_alternatives_are_one_implementation_each_and_other_text_belongs_to_all"],
    "2.2": [
        f"{HERE}/test_extract.py::test_steps_are_methods_and_limits_are_constraints",
        f"{HERE}/test_llm_extract.py::test_an_answer_becomes_a_graph_and_a_quote_that_is_not_there_is_doubted",
    ],
    "2.3": [
        f"{HERE}/test_canon.py::test_numbers_units_versions_and_denials_must_agree_exactly",
        f"{HERE}/test_canon.py::test_a_merge_can_be_undone",
    ],
    "2.4": [f"{HERE}/test_maxmin.py::test_max_min_agrees_with_brute_force_over_random_graphs"],
    "2.5": [f"{HERE}/test_maxmin.py::test_what_nothing_covers_has_the_floor_and_rejects_nobody"],
    "2.5a": [f"{HERE}/test_witness.py::test_a_contradicted_look_alike_never_ranks_above_an_uncontradicted_one"],
    "2.6": [f"{HERE}/test_maxmin.py::test_a_wish_costs_less_than_a_demand_and_alternatives_count_their_best"],
    "2.7": [f"{HERE}/test_calibrate.py::test_lambda_is_the_minimum_of_the_pairwise_loss_and_never_negative"],
    "2.8": [f"{HERE}/test_calibrate.py::test_reliability_moves_only_after_three_judged_pairs_and_stays_in_its_bounds"],
    "2.9": [f"{HERE}/test_calibrate.py::test_the_audit_shows_a_fifth_worst_first"],
    "2.10": [
        "tests/evaluate/test_lookalikes.py::test_a_pair_is_one_valid_skill_and_near_copies_with_opaque_shuffled_ids"
    ],
    "2.11": ["tests/evaluate/test_world.py::test_the_witness_chooses_skills_that_succeed_more_often_than_text_does"],
    "2.12": [f"{HERE}/test_canon.py::test_a_capability_reworded_has_the_same_canonical_id_and_the_same_w"],
}
