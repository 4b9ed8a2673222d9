"""The local service: jobs run on the machine that submits them."""
