"""What the models are told: one Markdown file per stage, and the parts that stages share."""
