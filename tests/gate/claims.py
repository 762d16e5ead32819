"""Which test holds which rule of `docs/how-it-works/gate.md`."""

GAIN, BANK, DECIDE = "tests/gate/test_gain.py", "tests/gate/test_bank.py", "tests/gate/test_decide.py"
IMPORTS, RUNNABLE, SHOWN = "tests/gate/test_imports.py", "tests/gate/test_runnable.py", "tests/evaluate/test_gain.py"
COLLECT, CLI, ONLINE = "tests/evaluate/test_collect.py", "tests/edge/test_cli_gate.py", "tests/gate/test_online.py"

CLAIMS = {
    "3.1": [
        f"{GAIN}::test_the_rule_agrees_with_loops_on_a_thousand_random_panels_with_every_knob",
        f"{GAIN}::test_the_answer_for_one_task_is_the_answer_for_many",
        f"{GAIN}::test_ties_keep_the_order_of_the_bank",
        f"{GAIN}::test_a_gain_of_exactly_the_threshold_does_not_load",
        f"{GAIN}::test_an_empty_pool_predicts_no_gain_with_no_support",
    ],
    "3.2": [
        f"{GAIN}::test_a_panel_that_cannot_be_right_is_an_error_that_names_the_row",
        f"{GAIN}::test_vectors_of_unequal_dimensions_are_an_error",
        f"{GAIN}::test_a_k_below_one_is_an_error",
        f"{BANK}::test_an_outcome_that_cannot_be_a_row_is_refused_and_nothing_of_its_batch_is_kept",
    ],
    "3.3": [
        f"{BANK}::test_pairs_never_mix_digests_stacks_or_skills",
        f"{DECIDE}::test_evidence_of_one_stack_never_moves_a_decision_of_another",
        f"{DECIDE}::test_a_digest_change_turns_load_back_to_offer_and_says_why",
    ],
    "3.4": [
        f"{DECIDE}::test_with_an_empty_bank_nothing_is_loaded_and_cards_are_offered",
        f"{DECIDE}::test_a_costly_body_of_a_cold_family_is_skipped_unless_it_was_named",
        f"{DECIDE}::test_eta_comes_from_the_skill_then_its_family_then_the_default",
        f"{DECIDE}::test_eta_grows_with_what_the_body_costs",
        "tests/gate/test_thresholds.py::test_a_wanted_use_rate_is_kept_and_not_undershot_needlessly",
        "tests/gate/test_thresholds.py::test_a_token_budget_is_kept_and_any_lower_threshold_would_break_it",
        f"{CLI}::test_a_fitted_threshold_is_in_force_for_its_family",
    ],
    "3.4a": [
        f"{DECIDE}::test_exploration_withholds_about_its_share_of_loads_and_logs_the_propensity",
        f"{DECIDE}::test_what_must_not_count_never_turns_a_verdict_into_load",
        f"{DECIDE}::test_safety_critical_is_the_users_word_and_never_the_skills_own",
    ],
    "3.5": [
        f"{GAIN}::test_few_neighbours_are_shrunk_by_two_pseudo_neighbours_of_mean_weight",
        f"{GAIN}::test_a_poor_neighbourhood_is_shrunk_even_when_it_is_large",
        f"{GAIN}::test_the_shrunk_gain_is_the_mean_of_the_distribution_its_interval_comes_from",
        f"{GAIN}::test_beta_intervals_agree_with_the_exact_binomial_sums",
    ],
    "3.6": [
        f"{IMPORTS}::test_the_reference_plugins_support_file_goes_in_and_out",
        f"{IMPORTS}::test_the_reference_plugins_outcome_lines_go_in_and_out",
        f"{IMPORTS}::test_a_panel_with_vectors_goes_in_and_out",
        f"{IMPORTS}::test_sr_agents_results_of_both_arms_pair_by_instance",
        f"{IMPORTS}::test_bad_rows_are_refused_with_their_line_and_the_good_ones_go_in",
        f"{IMPORTS}::test_importing_twice_changes_nothing_even_after_the_skill_changed",
    ],
    "3.7": [
        f"{COLLECT}::test_the_arms_order_is_drawn_by_the_seed_and_both_orders_happen",
        f"{COLLECT}::test_neither_agent_nor_check_is_told_the_arm_and_the_control_never_sees_the_skill",
        f"{COLLECT}::test_a_killed_collection_goes_on_without_a_lost_or_doubled_row",
        f"{COLLECT}::test_a_failed_transport_is_tried_again_and_never_counts_as_a_failure",
        f"{COLLECT}::test_a_check_that_fails_itself_is_no_failure_of_the_agent",
        f"{COLLECT}::test_another_model_answering_stops_everything_and_is_not_recorded",
        f"{COLLECT}::test_caps_on_runs_tokens_and_money_hold_across_collections",
        f"{COLLECT}::test_the_tasks_text_is_never_an_argument",
        f"{CLI}::test_collect_plans_runs_records_and_resumes",
    ],
    "3.8": [
        f"{SHOWN}::test_auroc_is_the_share_of_pairs_ranked_right_with_ties_as_half",
        f"{SHOWN}::test_the_json_has_the_shape_that_other_programs_read",
        f"{SHOWN}::test_unknown_tokens_give_no_saving",
        f"{SHOWN}::test_baselines_agree_with_their_definitions",
        f"{SHOWN}::test_more_neighbours_more_support_and_more_repeats_are_swept",
        f"{SHOWN}::test_the_report_is_written_as_markdown_json_and_plots",
    ],
    "3.9": [
        f"{SHOWN}::test_random_at_the_matched_rate_is_exact_and_agrees_with_simulation",
        f"{SHOWN}::test_between_and_within_sum_to_the_advantage_over_exact_random_use",
        f"{SHOWN}::test_an_interval_covers_the_truth_about_as_often_as_it_says",
    ],
    "3.10": [
        f"{SHOWN}::test_leave_one_out_within_families_is_biased_when_gains_are_shuffled",
        f"{SHOWN}::test_leave_one_out_is_never_split_and_a_held_out_half_is",
    ],
    "3.11": [f"{SHOWN}::test_what_the_committed_benchmark_says_is_what_its_table_says"],
    "3.12": [f"{SHOWN}::test_baselines_agree_with_their_definitions"],
    "3.13": [
        f"{DECIDE}::test_self_selected_single_arms_never_load",
        f"{BANK}::test_a_missing_success_is_not_a_failure",
        f"{ONLINE}::test_a_difference_of_randomised_arms_is_weighted_by_their_propensities",
    ],
    "3.14": [
        f"{DECIDE}::test_rows_that_an_agent_reported_itself_never_load",
        f"{COLLECT}::test_a_skill_that_tells_the_agent_to_report_success_gains_nothing",
        f"{IMPORTS}::test_what_a_release_carries_is_shown_elsewhere_and_never_counted",
    ],
    "3.15": [
        f"{DECIDE}::test_the_users_family_wins_over_the_cluster_of_look_alikes",
        f"{DECIDE}::test_family_rows_can_offer_or_skip_but_never_load",
        f"{DECIDE}::test_rows_of_another_skill_of_the_family_alone_never_load_for_any_gain",
        f"{DECIDE}::test_skills_used_together_are_judged_by_their_own_rows_as_a_set",
    ],
    "3.16": [
        f"{DECIDE}::test_an_unknown_stack_never_loads",
        "tests/gate/test_plan.py::test_a_new_stack_reruns_first_what_is_frequent_and_matters",
        f"{CLI}::test_a_plan_says_what_is_missing_and_what_a_new_stack_would_cost",
    ],
    "3.17": [
        f"{DECIDE}::test_a_digest_change_turns_load_back_to_offer_and_says_why",
        f"{BANK}::test_stale_pairs_are_kept_and_told_apart_by_digest",
    ],
    "4.1": [
        f"{RUNNABLE}::test_every_requirement_is_met_missing_or_unknown_with_its_reason",
        f"{DECIDE}::test_a_skill_that_needs_a_missing_program_is_never_loaded_whatever_its_gain",
    ],
    "4.2": [f"{RUNNABLE}::test_no_value_of_a_variable_is_ever_read"],
    "4.3": [f"{RUNNABLE}::test_a_hint_that_is_not_declared_never_blocks"],
    "4.4": [
        f"{RUNNABLE}::test_tools_are_compared_by_what_they_are_for",
        f"{RUNNABLE}::test_nothing_about_the_agents_machine_is_known_when_it_is_another_one",
    ],
    "4.5": [
        f"{RUNNABLE}::test_answers_are_remembered_until_the_environment_or_the_skill_changes",
        f"{DECIDE}::test_what_the_machine_has_is_looked_up_anew_for_every_slate",
    ],
}
