"""Numbered rules of the methods that the evaluation of retrieval carries, and the tests that hold them."""

_HERE = "tests/evaluate"

CLAIMS = {
    "1.9": [
        f"{_HERE}/test_ablate.py::test_rows_have_every_module_alone_last_and_all_on_both_encoders",
        f"{_HERE}/test_ablate.py::test_alone_last_sum_and_together_are_the_differences_of_the_runs",
        f"{_HERE}/test_ablate.py::test_exactly_one_row_is_the_default_and_it_is_always_there",
        f"{_HERE}/test_run.py::test_query_expansion_uses_the_given_hypothetical_skills",
        f"{_HERE}/test_run.py::test_document_expansion_moves_every_document_toward_the_mean_request",
    ],
    "1.10": [
        f"{_HERE}/test_diagnose.py::test_the_background_gap_is_that_of_loops_over_competitors",
        f"{_HERE}/test_diagnose.py::test_equal_background_counts_half",
        f"{_HERE}/test_diagnose.py::test_projection_is_wanted_when_background_puts_most_skills_above_gold",
    ],
    "1.11": [
        f"{_HERE}/test_diagnose.py::test_coverage_counts_same_words_near_words_and_mean_nearness",
        f"{_HERE}/test_diagnose.py::test_coverage_is_that_of_loops",
    ],
    "1.12": [
        f"{_HERE}/test_diagnose.py::test_sections_split_at_headings_carry_them_and_are_long_enough",
        f"{_HERE}/test_diagnose.py::test_dilution_is_the_best_section_against_the_whole",
    ],
    "1.15": [
        f"{_HERE}/test_tiers.py::test_of_nearly_equal_documents_one_stays_and_gold_always",
        f"{_HERE}/test_tiers.py::test_near_copies_break_one_or_two_requirements_and_leave_the_rest",
        f"{_HERE}/test_tiers.py::test_a_copys_row_tells_nothing_about_its_original",
    ],
    "1.16": [
        f"{_HERE}/test_controls.py::test_the_documents_own_directions_help_where_random_ones_do_not",
        f"{_HERE}/test_controls.py::test_expansion_is_measured_with_each_background_taken_out",
        f"{_HERE}/test_controls.py::test_the_shared_component_and_what_is_left_of_it_are_told_apart",
        f"{_HERE}/test_controls.py::test_both_versions_lose_the_same_number_of_words",
        f"{_HERE}/test_controls.py::test_padding_costs_what_the_ranks_say",
        f"{_HERE}/test_diagnose.py::test_fifths_are_equal_parts_in_order_and_leave_out_what_has_no_value",
        f"{_HERE}/test_diagnose.py::test_every_gain_is_held_against_every_diagnostic_with_the_others_still",
        f"{_HERE}/test_diagnose.py::test_a_partial_correlation_is_that_of_the_textbook_formula",
        f"{_HERE}/test_sweep.py::test_what_is_chosen_on_one_half_is_reported_on_the_other",
    ],
    "6.1": [
        f"{_HERE}/test_datasets.py::test_sra_bench_instances_are_recognised",
        f"{_HERE}/test_run.py::test_the_result_file_has_the_form_of_sra_bench",
    ],
    "6.2": [
        f"{_HERE}/test_datasets.py::test_skillrouter_core_drops_generic_tasks_and_keeps_the_core_gold",
        f"{_HERE}/test_run.py::test_skillrouters_gold_outside_the_pool_does_not_count_and_others_does",
        f"{_HERE}/test_metrics.py::test_graded_relevance_enters_ndcg_linearly",
        f"{_HERE}/test_metrics.py::test_full_coverage_wants_every_gold_skill",
    ],
    "6.3": [
        f"{_HERE}/test_datasets.py::test_skillret_queries_are_read_with_their_labels",
        f"{_HERE}/test_datasets.py::test_skillrets_whole_skill_files_lose_their_front_matter",
    ],
    "6.4": [
        f"{_HERE}/test_metrics.py::test_a_request_without_a_ranking_scores_zero_and_is_not_dropped",
        f"{_HERE}/test_run.py::test_gold_that_no_skill_has_is_named_and_scores_zero",
        f"{_HERE}/test_metrics.py::test_the_interval_covers_the_true_difference_about_as_often_as_it_says",
    ],
}
