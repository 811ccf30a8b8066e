"""``python -m stallscope``: the command line, for where a module is wanted (torchrun -m stallscope record ...)."""

from .cli.main import main

if __name__ == "__main__":
    main(prog_name="stallscope")
