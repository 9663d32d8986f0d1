from config_files import complaint, complaint_with, load_text, load_with, write  # noqa: F401
