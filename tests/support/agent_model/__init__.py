"""A scripted model behind the streaming protocols that other people's agents speak."""
