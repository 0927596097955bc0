"""Answer questions about a Parquet file of samples: read.py FILE QUESTION…

Print one JSON object: the answers of DuckDB to the questions, in which FILE stands for the
file, and what pyarrow reads.
"""
import json
import sys

import duckdb
import pyarrow.parquet

file, questions = sys.argv[1], sys.argv[2:]
# JSON has no NaN.
answers = [[[None if v != v else v for v in row] for row in duckdb.sql(q.replace("FILE", file)).fetchall()]
           for q in questions]
whole = pyarrow.parquet.ParquetFile(file)
rows = nulls = 0
total = 0.0
for batch in whole.iter_batches(columns=["value"]):
    rows += len(batch)
    nulls += batch.column(0).null_count
    total += sum(v for v in batch.column(0).to_pylist() if v is not None)
json.dump({"duckdb": answers, "rows": rows, "nulls": nulls, "sum": total, "columns": whole.schema_arrow.names},
          sys.stdout)
