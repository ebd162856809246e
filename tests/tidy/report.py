"""Where the next file to split is: `python -m tests.tidy.report` names the largest files and functions."""

from tests.tidy.test_size import functions, line_count
from tests.tidy.tree import python_files, shown

COUNT = 15


def main() -> None:
    files = python_files("src")
    print("lines  file")
    for lines, name in sorted(((line_count(path), shown(path)) for path in files), reverse=True)[:COUNT]:
        print(f"{lines:5}  {name}")
    print("\nlines  function")
    found = ((lines, name) for path in files for name, lines in functions(path))
    for lines, name in sorted(found, reverse=True)[:COUNT]:
        print(f"{lines:5}  {name}")


if __name__ == "__main__":
    main()
