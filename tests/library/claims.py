"""Numbered rules of the methods that the library carries, and the tests that hold them."""

CLAIMS = {
    "3.17": [
        "tests/library/test_scan.py::test_the_digest_covers_every_file_and_whether_it_may_run",
        "tests/library/test_read.py::test_an_edited_resource_changes_the_digest",
    ],
    "4.2": [
        "tests/library/test_needs.py::test_openclaws_requirements_are_declared_in_every_form_they_are_written",
        "tests/library/test_needs.py::test_our_own_requirements_are_declared",
        "tests/library/test_needs.py::test_compatibility_declares_an_os_a_binary_or_the_network_where_it_names_one",
        "tests/library/test_needs.py::test_variables_are_known_by_name_only",
    ],
    "4.3": [
        "tests/library/test_needs.py::test_allowed_tools_is_one_undeclared_need_that_any_of_them_meets",
        "tests/library/test_scan.py::test_files_that_the_body_names_and_the_folder_lacks_are_undeclared_needs",
    ],
    "5.5": ["tests/library/test_read.py::test_a_path_never_leaves_the_folder"],
}
