"""Which test holds which rule of `docs/how-it-works/retrieve.md`."""

BACKGROUND, BM25, FUSE = (f"tests/retrieve/test_{part}.py" for part in ("background", "bm25", "fuse"))
BUILD, NAMES, STAGE = (f"tests/retrieve/test_{part}.py" for part in ("build", "names", "stage"))
ABSTAIN = "tests/retrieve/test_abstain.py"

CLAIMS = {
    "1.4": [
        f"{BACKGROUND}::test_projected_scores_equal_those_of_a_naive_svd",
        f"{BACKGROUND}::test_both_levels_together_are_orthonormal",
        f"{BACKGROUND}::test_few_documents_carry_no_projection",
        f"{BACKGROUND}::test_a_vector_that_was_all_background_stays_zero",
        f"{BUILD}::test_the_manifest_states_the_projection_and_its_second_level",
        f"{BUILD}::test_new_skills_are_projected_by_the_stored_directions_until_the_library_has_drifted",
    ],
    "1.5": [f"{BACKGROUND}::test_projection_finds_what_the_background_hid_and_random_directions_do_not"],
    "1.6": [
        f"{FUSE}::test_the_pool_is_the_union_of_both_channels_best",
        f"{FUSE}::test_z_has_mean_zero_and_deviation_one_or_is_inert",
        f"{FUSE}::test_an_inert_channel_leaves_the_order_to_the_other",
        f"{FUSE}::test_alpha_sits_on_the_lexical_side",
        f"{FUSE}::test_scores_keep_a_lead_that_ranks_forget",
        f"{STAGE}::test_fused_scores_are_the_weighted_z_of_both_channels",
        f"{STAGE}::test_words_weigh_more_the_longer_a_request_is_beside_what_the_encoder_reads",
        f"{STAGE}::test_equal_vectors_score_equal_wherever_their_rows_lie",
    ],
    "1.7": [
        f"{BM25}::test_scores_agree_with_bm25s_on_the_same_tokens",
        f"{BM25}::test_terms_of_a_hypothetical_skill_count_by_their_weight",
        f"{BM25}::test_words_of_a_request_saturate_and_function_words_are_left_out",
        f"{BM25}::test_chinese_is_found_by_its_bigrams",
    ],
    "1.13": [
        f"{ABSTAIN}::test_the_judge_is_a_small_network_beside_a_table_of_words",
        f"{ABSTAIN}::test_the_cut_stands_between_fitted_sizes",
        f"{ABSTAIN}::test_the_floor_grows_between_fitted_sizes_with_the_logarithm",
        f"{STAGE}::test_below_the_floor_the_slate_is_empty_and_the_note_keeps_the_near_miss",
        f"{STAGE}::test_a_judge_decides_where_the_encoder_has_one",
        f"{STAGE}::test_where_the_encoder_cannot_read_the_words_decide",
        f"{STAGE}::test_a_named_skill_passes_the_floor",
    ],
    "1.14a": [
        f"{NAMES}::test_a_skill_named_on_purpose_is_asked_for",
        f"{NAMES}::test_words_that_only_look_like_a_name_ask_for_nothing",
        f"{NAMES}::test_a_name_of_several_parts_in_running_text_is_always_on_the_slate",
        f"{NAMES}::test_a_plain_word_is_a_bonus_that_shrinks_with_the_request",
        f"{STAGE}::test_a_named_skill_comes_first_even_where_nothing_else_speaks_for_it",
        f"{STAGE}::test_a_manual_only_skill_is_found_only_when_named",
    ],
}
