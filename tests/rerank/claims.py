"""Rules of docs/how-it-works/rerank.md and the tests that hold them."""

HERE = "tests/rerank"
EXTRACT, MODEL, CANON = f"{HERE}/test_extract.py", f"{HERE}/test_llm_extract.py", f"{HERE}/test_canon.py"
MAXMIN, WITNESS, CONTRAST = f"{HERE}/test_maxmin.py", f"{HERE}/test_witness.py", f"{HERE}/test_contrast.py"
CALIBRATE, REQUEST, KEEP = f"{HERE}/test_calibrate.py", f"{HERE}/test_request.py", f"{HERE}/test_keep.py"
CORRUPT, LOOKALIKES = "tests/evaluate/test_corrupt.py", "tests/evaluate/test_lookalikes.py"
WORLD, NOISE = "tests/evaluate/test_world.py", "tests/evaluate/test_noise.py"

CLAIMS = {
    "2.1": [
        f"{EXTRACT}::test_alternatives_are_one_implementation_each_and_other_text_belongs_to_all",
        f"{EXTRACT}::test_every_node_has_a_path_from_the_skill_and_an_own_id",
        f"{REQUEST}::test_clauses_become_needs_with_short_labels",
    ],
    "2.2": [
        f"{EXTRACT}::test_description_clauses_are_capabilities_and_not_for_is_a_constraint",
        f"{EXTRACT}::test_steps_are_methods_and_limits_are_constraints",
        f"{EXTRACT}::test_tools_and_files_are_artifacts_with_their_quote",
        f"{EXTRACT}::test_only_a_lead_that_denies_its_list_makes_it_denied",
        f"{HERE}/test_rules.py::test_a_cell_that_says_yes_or_no_speaks_of_its_column",
        f"{MODEL}::test_an_answer_becomes_a_graph_and_a_quote_that_is_not_there_is_doubted",
        f"{MODEL}::test_the_text_of_a_skill_cannot_end_the_data_and_begin_instructions",
        f"{HERE}/test_rules.py::test_a_hostile_text_is_read_in_bounded_time_and_size",
    ],
    "2.3": [
        f"{CANON}::test_numbers_units_versions_and_denials_must_agree_exactly",
        f"{CANON}::test_nothing_merges_across_types_or_without_shared_words",
        f"{CANON}::test_a_node_of_several_skills_is_shared_and_of_one_is_local",
        f"{CANON}::test_a_new_skill_joins_without_touching_the_rest_and_after_reopening",
        f"{CANON}::test_a_merge_can_be_undone",
    ],
    "2.4": [
        f"{MAXMIN}::test_max_min_agrees_with_brute_force_over_random_graphs",
        f"{MAXMIN}::test_w_never_falls_when_a_reliability_rises",
        f"{MAXMIN}::test_covering_everything_across_two_implementations_scores_below_covering_it_in_one",
        f"{MAXMIN}::test_a_supporting_branch_is_worth_its_weakest_node_or_relation",
        f"{MAXMIN}::test_a_copy_of_a_skill_does_not_make_its_words_common",
        f"{WITNESS}::test_the_evidence_reads_like_a_sentence_and_names_the_difference",
    ],
    "2.5": [
        f"{MAXMIN}::test_what_nothing_covers_has_the_floor_and_rejects_nobody",
        f"{WITNESS}::test_a_request_without_requirements_changes_no_place",
        f"{WITNESS}::test_a_request_with_several_needs_gets_a_cover_of_at_most_three_skills",
        f"{WITNESS}::test_a_cover_holds_no_two_look_alikes_and_starts_with_the_first",
    ],
    "2.5a": [
        f"{WITNESS}::test_a_contradicted_look_alike_never_ranks_above_an_uncontradicted_one",
        f"{CONTRAST}::test_another_value_in_the_place_of_the_stated_one_is_a_contradiction",
        f"{CONTRAST}::test_a_missing_step_is_a_lack_and_no_contradiction",
        f"{HERE}/test_said.py::test_agreeing_in_other_words_is_no_contradiction_and_gains_no_less",
        f"{HERE}/test_said.py::test_who_denies_another_thing_about_the_object_does_not_contradict_it",
        f"{HERE}/test_order.py::test_an_order_is_recognised_however_it_is_put",
    ],
    "2.6": [
        f"{MAXMIN}::test_a_wish_costs_less_than_a_demand_and_alternatives_count_their_best",
        f"{REQUEST}::test_a_wish_weighs_less_than_a_demand",
        f"{REQUEST}::test_alternatives_are_one_group",
    ],
    "2.7": [
        f"{WITNESS}::test_between_skills_that_are_nobodys_look_alike_the_text_score_stands",
        f"{WITNESS}::test_the_valid_skill_stands_first_among_its_near_copies_whatever_the_text_scores",
        f"{CALIBRATE}::test_lambda_is_the_minimum_of_the_pairwise_loss_and_never_negative",
        f"{HERE}/test_relatives.py::test_beyond_the_first_only_members_of_one_family_are_read_and_the_right_one_wins",
    ],
    "2.8": [
        f"{CALIBRATE}::test_masking_what_supports_the_better_skill_lowers_the_margin",
        f"{CALIBRATE}::test_reliability_moves_only_after_three_judged_pairs_and_stays_in_its_bounds",
        f"{CALIBRATE}::test_pairs_come_from_outcomes_that_may_teach",
        f"{KEEP}::test_reliabilities_are_put_on_and_calibration_never_overwrites_a_person",
    ],
    "2.9": [
        f"{CALIBRATE}::test_the_audit_shows_a_fifth_worst_first",
        f"{CALIBRATE}::test_recovery_is_one_for_a_full_repair_and_zero_for_none",
        f"{HERE}/test_verbs.py::test_a_persons_correction_is_kept_and_used",
        f"{NOISE}::test_auditing_everything_recovers_everything_and_nothing_nothing",
    ],
    "2.10": [
        f"{LOOKALIKES}::test_a_pair_is_one_valid_skill_and_near_copies_with_opaque_shuffled_ids",
        f"{LOOKALIKES}::test_ties_count_by_expectation",
        f"{CORRUPT}::test_every_operator_breaks_something_that_the_request_states",
        f"{CORRUPT}::test_a_corruption_touches_what_it_says_and_nothing_else",
        f"{HERE}/test_verbs.py::test_eval_rerank_prints_the_stated_json",
        "tests/evaluate/test_handmade.py::test_the_edits_of_one_request_stand_beside_its_valid_skill",
    ],
    "2.11": [
        f"{WORLD}::test_following_the_valid_skill_reaches_the_goal_and_no_near_copy_does",
        f"{WORLD}::test_the_witness_chooses_skills_that_succeed_more_often_than_text_does",
    ],
    "2.12": [
        f"{CANON}::test_a_capability_reworded_has_the_same_canonical_id_and_the_same_w",
        "tests/evaluate/test_paraphrase.py::test_a_rewording_shares_id_and_w_and_another_unit_does_not",
    ],
}
