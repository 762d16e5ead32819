"""Rules of docs/how-it-works/expand-and-tune.md and the tests that hold them."""

EXPAND, QUALIFY = "tests/retrieve/test_expand.py", "tests/retrieve/test_qualify.py"
FINETUNE, PAIRS, NEGATIVES = (
    "tests/models/test_finetune.py",
    "tests/models/test_pairs.py",
    "tests/models/test_negatives.py",
)
WRITING, DATASET = "tests/assemble/test_writing.py", "tests/models/test_dataset.py"
CLI, DATA = "tests/edge/test_cli_learn.py", "tests/training/test_training_data.py"

CLAIMS = {
    "1.1": [
        f"{EXPAND}::test_documents_shift_toward_the_mean_of_ordinary_requests",
        f"{EXPAND}::test_nothing_to_move_toward_leaves_a_vector_as_it_is",
        f"{EXPAND}::test_a_model_that_fails_leaves_the_request_alone",
        f"{WRITING}::test_a_model_that_does_not_answer_costs_the_route_nothing_but_its_deadline",
    ],
    "1.2": [
        f"{EXPAND}::test_a_moved_vector_is_the_unit_convex_mean",
        f"{EXPAND}::test_the_model_reads_the_skill_and_its_answer_is_at_most_two_requests",
    ],
    "1.3": [
        f"{EXPAND}::test_front_matter_and_code_fences_are_not_encoded",
        f"{EXPAND}::test_what_a_model_wrote_is_kept_until_text_prompt_or_model_change",
        "tests/models/test_llm.py::test_the_key_of_an_answer_tells_model_temperature_schema_prompt_and_sample_apart",
    ],
    "1.3a": [
        f"{QUALIFY}::test_a_model_that_changes_nothing_or_harms_fails",
        f"{QUALIFY}::test_a_model_whose_requests_do_not_find_their_skill_fails",
        f"{CLI}::test_a_model_is_qualified_by_what_its_expansions_do",
        f"{WRITING}::test_requests_of_a_qualified_model_move_their_skill_at_the_next_index",
        f"{WRITING}::test_hypothetical_skills_of_a_qualified_model_speak_in_both_channels",
        f"{WRITING}::test_a_model_that_did_not_help_is_never_asked",
    ],
    "1.8": [
        f"{FINETUNE}::test_the_loss_is_infonce_and_caching_gradients_changes_nothing",
        f"{FINETUNE}::test_a_column_that_means_the_same_is_left_out_but_never_the_answer",
        f"{FINETUNE}::test_the_rate_warms_up_and_falls_along_half_a_cosine",
        f"{FINETUNE}::test_a_killed_run_resumed_ends_as_one_that_was_not",
        f"{FINETUNE}::test_a_document_vector_is_the_unit_mean_of_its_texts_and_a_weak_pair_reads_the_body",
        f"{FINETUNE}::test_a_long_request_is_read_from_its_beginning_or_from_anywhere",
        f"{DATASET}::test_skills_that_one_request_needs_are_no_negatives_of_each_other",
        f"{NEGATIVES}::test_a_third_is_near_in_meaning_a_third_in_words_and_a_third_anything",
        f"{PAIRS}::test_groups_by_text_agree_with_comparing_every_pair",
        f"{DATA}::test_no_request_names_its_skill_or_repeats_another",
    ],
}
