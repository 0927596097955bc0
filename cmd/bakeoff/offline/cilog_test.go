package offline

import (
	"strings"
	"testing"
)

// The logs of CI servers have a prefix in each line, which is not a part of the result. Text that only looks like one
// stays, and the results of two jobs are not pooled.
func TestLogsOfCIServers(t *testing.T) {
	const bench = "goos: linux\nBenchmarkA-2 \t 10\t 5 ns/op\nBenchmarkB-2 \t 10\t 7 ns/op\n"
	const rust = "fib 20                  time:   [1.0 ns 2.0 ns 3.0 ns]\na/very/long/name\n" +
		"                        time:   [3.0 ns 4.0 ns 5.0 ns]\n"
	before := func(prefix, text string) string {
		return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
	}
	for name, prefix := range map[string]string{
		"GitHub":         "2024-05-01T12:00:00.1234567Z ",
		"gh run view":    "bench\tRun bench\t2024-05-01T12:00:00.1234567Z ",
		"GitLab":         "2024-05-01T12:00:00.123456Z 00O ",
		"Buildkite":      "\x1b_bk;t=1700000000000\x07",
		"Jenkins":        "[2024-05-01T12:00:00.123Z] ",
		"clock":          "12:00:00  ",
		"ts":             "May 01 12:00:00 ",
		"docker logs":    "2024-05-01T12:00:00.123456789+00:00 ",
		"docker compose": "bench-1  | ",
		"compose logs":   "bench-1  | 2024-05-01T12:00:00.123456789Z ",
		"docker build":   "#12 3.456 ",
	} {
		for text, wants := range map[string][]string{bench: {"A ", "5.00 ns/op", "B "},
			rust: {"fib 20 ", "mean 2.00 ns", "a/very/long/name ", "mean 4.00 ns"}} {
			out, stderr, code := called(t, "analyse", file(t, "x.txt", "\ufeff"+before(prefix, text)))
			for _, want := range wants {
				if code != 0 || !strings.Contains(out, "  "+want) {
					t.Errorf("%s: %s lacks %q, %s, %d", name, out, want, stderr, code)
				}
			}
		}
	}
	const time = "2024-05-01T12:00:00.1234567Z "
	for name, x := range map[string]struct{ text, names, command string }{
		"services": {before("old-1  | ", bench) + before("new-1  | ", bench), "new-1, old-1", `awk '$1 == "new-1"' `},
		"services below a line of docker compose": {"Attaching to b-1, b-10\n" + before("b-1  | ", bench) +
			before("b-10  | ", bench), "b-1, b-10", `awk '$1 == "b-1"' `},
		"a service that failed": {before("old-1  | ", bench) + before("new-1  | ", "panic: x\n"), "new-1, old-1",
			`awk '$1 == "old-1"' `},
		"jobs": {before("bench (old)\tRun\t"+time, bench) + before("bench (new)\tRun\t"+time, bench),
			"bench (new) / Run, bench (old) / Run", `awk -F '\t' '$1 == "bench (new)" && $2 == "Run"' `},
		"jobs with byte order marks": {"old\tRun\t\ufeff" + time + "Run\n" + before("old\tRun\t"+time, bench) +
			"new\tRun\t\ufeff" + time + "Run\n" + before("new\tRun\t"+time, bench), "new / Run, old / Run",
			`awk -F '\t' '$1 == "new" && $2 == "Run"' `},
		"steps": {before("a\tSet up\t"+time, "x\n") + before("a\t\"b\" it's\t"+time, bench) + before("a\tc\t"+time, rust),
			`a / "b" it's, a / c`, `awk -F '\t' '$1 == "a" && $2 == "\"b\" it'\''s"' `},
	} {
		_, stderr, code := called(t, "analyse", file(t, "x.txt", x.text))
		want := "x.txt is the log of several jobs, steps or services: " + x.names + "; write the lines of each into a file " +
			"of its own: " + x.command
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %s, %d, want %s", name, stderr, code, want)
		}
	}
	for name, text := range map[string]string{
		"a step with results": before("a\tSet up\t"+time, "x\ny\n") + before("a\tb\t"+time, bench) +
			before("a\tPost\t"+time, "z\n"),
		"a step of docker build": "#1 [internal] load build definition\n#1 DONE 0.0s\n\n" + before("#5 0.1 ", "x\ny\n") +
			before("#6 12.12 ", bench) + "#6 DONE 20.1s\n",
		"parts of lines": before("2024-05-01T12:00:00.123456Z 00O ", strings.ReplaceAll(bench, "\t 10", "\n+\t 10")),
	} {
		text = strings.ReplaceAll(text, "00O +", "00O+")
		out, stderr, code := called(t, "analyse", file(t, "x.txt", text))
		if code != 0 || !strings.Contains(out, "  A     x          5.00 ns/op  1") {
			t.Errorf("%s: %s, %s, %d", name, out, stderr, code)
		}
	}
	table := strings.Repeat("old | 5\nnew | 6\n", 4) + bench
	out, stderr, code := called(t, "analyse", file(t, "x.txt", table))
	if code != 0 || !strings.Contains(out, "5.00 ns/op") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

// A title after a list is a paragraph of its own only after a blank line.
func TestMarkdownOfTwoMetrics(t *testing.T) {
	a := file(t, "a.txt", "BenchmarkA-2 10 5 ns/op 3 B/op\n")
	out, stderr, code := called(t, "analyse", a, file(t, "b.txt", "BenchmarkA-2 10 6 ns/op 3 B/op\n"), "--markdown")
	if code != 0 || !strings.Contains(out, "and one has 1.\n\nB/op, lower is better:\n\n|") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

// A terminal adds colors anywhere in the file, and CR to the ends of lines.
func TestTextOfTerminals(t *testing.T) {
	long := "pkg: x\r\r\n" + strings.Repeat("noise of the program\r\r\n", 4000)
	path := file(t, "x.txt", "BenchmarkA-2 \t 10\t 5 ns/op\n"+long+"\x1b[32mBenchmarkB-2\x1b[0m \t 10\t 7 ns/op\r\r\n")
	out, stderr, code := called(t, "analyse", path)
	if code != 0 || !strings.Contains(out, "  x/B  ") || !strings.Contains(out, "7.00 ns/op") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}
