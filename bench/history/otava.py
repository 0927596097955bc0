# Reads lines of JSON {"levels": [...], "values": [...], "from": n} and writes for each the list of how many
# levels of significance, from loose to strict, Apache Otava alarms at by each number of runs from n on.
import json
import sys

from otava.analysis import compute_change_points

for line in sys.stdin:
    job = json.loads(line)
    reached, out = 0, []
    for n in range(job["from"], len(job["values"]) + 1):
        while reached < len(job["levels"]) and compute_change_points(
                job["values"][:n], max_pvalue=job["levels"][reached])[0]:
            reached += 1
        out.append(reached)
    print(json.dumps(out), flush=True)
