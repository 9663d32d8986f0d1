from config_files import complaint, complaint_with, load_text, write  # noqa: F401
from environments import opened  # noqa: F401
