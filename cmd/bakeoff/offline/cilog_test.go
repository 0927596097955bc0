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
	two := before("old-1  | ", bench) + before("new-1  | ", bench)
	_, stderr, code := called(t, "analyse", file(t, "x.txt", two))
	const want = "x.txt is the log of several jobs or services: new-1, old-1; write the lines"
	if code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("%s, %d", stderr, code)
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
