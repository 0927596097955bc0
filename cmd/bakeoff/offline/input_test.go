package offline

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// PowerShell writes the output of a program as UTF-16, for analyse and for boots.
func TestFilesInUTF16(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"BenchmarkSum-4 \t 100\t 5 ns/op\r\n", "5.00 ns/op"},
		{"block,position,contender,workload,metric,unit,better,value\r\n0,0,a,w,m,s,lower,1\r\n0,1,b,w,m,s,lower,2\r\n",
			"1 block"},
	} {
		for name, order := range map[string][2]int{"little": {0, 8}, "big": {8, 0}} {
			var text strings.Builder
			for _, unit := range utf16.Encode([]rune("\ufeff" + x.text)) {
				text.WriteByte(byte(unit >> order[0]))
				text.WriteByte(byte(unit >> order[1]))
			}
			out, stderr, code := called(t, "analyse", file(t, "x.txt", text.String()))
			if code != 0 || !strings.Contains(out, x.want) {
				t.Errorf("%s: %s, %s, %d", name, out, stderr, code)
			}
		}
	}
}

// A file of gzip is read as what is in it, and its contender has the name of that. Of a part of
// it, nothing is believed.
func TestGzipFiles(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, "12.3s foo.service\n   1s bar.service\n")
	z.Close()
	plain := file(t, "new.txt", "11.3s foo.service\n   2s bar.service\n")
	const padding = "\x00\x00\x00\x00" // which gzip(1) ignores
	out, stderr, code := called(t, "analyse", file(t, "old.txt.gz", packed.String()+padding), plain)
	if code != 0 || !strings.Contains(out, "old") || strings.Contains(out, "old.txt") ||
		!strings.Contains(out, "bar.service") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
	for n := 1; n < packed.Len(); n++ {
		out, stderr, code := called(t, "analyse", file(t, "cut.gz", packed.String()[:n]))
		if code != 2 || n > 3 && !strings.Contains(stderr, "cut.gz:1: the compressed file is damaged") {
			t.Fatalf("%d bytes: %s, %s, %d", n, out, stderr, code)
		}
	}
}

// A kernel log that was rotated is packed, too.
func TestBootOfAGzipFile(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, "[    0.000000] Linux version 6.1.0\n[    0.600000] Run /init as init process\n")
	z.Close()
	out, stderr, code := called(t, "boot", "show", file(t, "dmesg.0.gz", packed.String()))
	if code != 0 || !strings.Contains(out, "first userland instruction") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
	_, stderr, code = called(t, "boot", "show", file(t, "cut.gz", packed.String()[:packed.Len()/2]))
	if code != 2 || !strings.Contains(stderr, "cut.gz:1: the compressed file is damaged") {
		t.Errorf("%s, %d", stderr, code)
	}
}

// The format may be recognizable only after the output of the program that was measured.
func TestLongTextBeforeTheFirstResult(t *testing.T) {
	text := strings.Repeat("noise of the program\n", 10_000) + "BenchmarkA-2 10 5 ns/op\n"
	out, stderr, code := called(t, "analyse", file(t, "x.txt", text))
	if code != 0 || !strings.Contains(out, "5.00 ns/op") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

func TestJSONExcludesMarkdown(t *testing.T) {
	_, stderr, code := called(t, "analyse", file(t, "x.txt", "BenchmarkA-2 10 5 ns/op\n"), "--json", "--markdown")
	if code != 2 || !strings.Contains(stderr, "--json and --markdown exclude each other; remove one of them") {
		t.Errorf("%s, %d", stderr, code)
	}
}

func TestEmptyFileIsNamed(t *testing.T) {
	_, stderr, code := called(t, "analyse", file(t, "x.txt", ""))
	if code != 2 || !strings.Contains(stderr, "x.txt is empty; the program that should write it may have failed") {
		t.Errorf("%s, %d", stderr, code)
	}
}

func TestFileOfAByteOrderMarkIsEmpty(t *testing.T) {
	_, stderr, code := called(t, "analyse", file(t, "x.txt", "\ufeff\n"))
	if code != 2 || !strings.Contains(stderr, "x.txt is empty; the program that should write it may have failed") {
		t.Errorf("%s, %d", stderr, code)
	}
}

func TestTarArchivesAreNamed(t *testing.T) {
	var packed bytes.Buffer
	text := "goos: linux\ngoarch: amd64\npkg: x\nBenchmarkA-2 10 5 ns/op\n"
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	w.WriteHeader(&tar.Header{Name: "b.txt", Mode: 0o644, Size: int64(len(text))})
	io.WriteString(w, text)
	w.Close()
	z.Close()
	for _, args := range [][]string{{"analyse"}, {"boot", "show"}} {
		_, stderr, code := called(t, append(args, file(t, "x.tgz", packed.String()))...)
		if code != 2 || !strings.Contains(stderr, "x.tgz:1: this is a tar archive; unpack it, and name the files in it") {
			t.Errorf("%s: %s, %d", args, stderr, code)
		}
	}
}

// A file is not a repetition of another one that was given its name.
func TestGivenNameIsNotThatOfAnotherFile(t *testing.T) {
	text := "BenchmarkA-2 10 5 ns/op\n"
	x := file(t, "x.txt", text)
	out, stderr, code := called(t, "analyse", "x="+file(t, "bench.txt", strings.ReplaceAll(text, "5", "6")), x)
	if code != 0 || !strings.Contains(out, " "+x+" ") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

func TestOtherCompressedFilesAreNamed(t *testing.T) {
	_, stderr, code := called(t, "analyse", file(t, "x.zst", "\x28\xb5\x2f\xfd\x00"))
	if code != 2 || !strings.Contains(stderr, "x.zst:1: this is a compressed file; unpack it") {
		t.Errorf("%s, %d", stderr, code)
	}
}

// A program that writes colors into its file loses no line.
func TestFilesWithColors(t *testing.T) {
	text := "\x1b[0;1;31m12.3s\x1b[0m foo.service\n   1s bar.service\n"
	out, stderr, code := called(t, "analyse", file(t, "x.txt", text))
	if code != 0 || !strings.Contains(out, "foo.service") || !strings.Contains(out, "bar.service") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

// An empty value of a parameter can be the baseline.
func TestEmptyBaseline(t *testing.T) {
	path := file(t, "x.txt", "BenchmarkSplit/sep=,-8 1 3 ns/op\nBenchmarkSplit/sep=-8 1 1 ns/op\n")
	out, stderr, code := called(t, "analyse", path, "--contender", "sep", "--baseline", "")
	if code != 0 || !strings.Contains(out, "3.00 times as long") {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

// What a file lacks is missing: a side of which every value was left out is not compared.
func TestWhatWasLeftOutIsMissing(t *testing.T) {
	const good = "BenchmarkA-2 10 5 ns/op\n"
	lost := file(t, "x.txt", good+"BenchmarkB-2 0 NaN ns/op\n")
	failed := file(t, "x.txt", good+"--- FAIL: BenchmarkB\n")
	const table = "block,position,contender,workload,metric,unit,better,value\n0,0,a,w,m,s,lower,1\n0,1,b,w,m,s,lower,2\n"
	without := file(t, "x.json", `{"commit_hash": "x", "env_name": "y", "version": 2, "result_columns": ["result"],
"results": {"a.time_x": [[1]], "a.time_y": [null]}}
`)
	for _, x := range []struct {
		file, failOn, want string
		code               int
	}{
		{without, "failed", "x.json:2: the benchmark failed", 3},
		{lost, "missing", "x.txt: 1 part cannot be used", 3},
		{lost, "failed", "", 0},
		{failed, "missing", "BenchmarkB failed", 3},
		{failed, "failed", "BenchmarkB failed", 3},
		{file(t, "x.txt", good), "missing,failed", "", 0},
		{file(t, "x.txt", "pkg: p\n"+good), "failed", "", 0},
		{file(t, "x.txt", "pkg: p\n"+good), "missing", "x.txt:1: The output of the package p has no line PASS", 3},
		{file(t, "x.txt", "pkg: p\n"+good+"PASS\n"), "missing", "", 0},
		{file(t, "x.txt", strings.TrimSpace(good)), "missing", "x.txt does not end with a newline", 3},
		{file(t, "t.csv", strings.TrimSpace(table)), "missing", "t.csv does not end with a newline", 3},
		{file(t, "t.csv", table), "missing", "", 0},
	} {
		_, stderr, code := called(t, "analyse", x.file, "--fail-on", x.failOn)
		if code != x.code || !strings.Contains(stderr, x.want) {
			t.Errorf("--fail-on %s: %d, want %d: %s", x.failOn, code, x.code, stderr)
		}
	}
}

// A file that was cut in its last number, two equal files, and a file that was appended to
// itself give numbers that look right; a warning says so.
func TestSuspiciousFiles(t *testing.T) {
	const (
		bench = "BenchmarkA-2 10 5 ns/op\n"
		other = "BenchmarkA-2 10 6 ns/op\n"
		table = "block,position,contender,workload,metric,unit,better,value\n0,0,a,w,m,s,lower,1\n0,1,b,w,m,s,lower,2"
		json  = `{"results":[{"command":"a","times":[1,2]}]}`
		cut   = "does not end with a newline. It may be"
		twice = "contains the same text 2 times."
		three = "contains the same text 3 times."
	)
	for name, x := range map[string]struct{ text, want string }{
		"cut number":       {bench + "BenchmarkA-2 10 5 ns/op 12 B/op", cut},
		"cut table":        {table, cut},
		"table":            {table + "\n", ""},
		"benchmark":        {bench, ""},
		"CRLF":             {strings.ReplaceAll(bench, "\n", "\r\n"), ""},
		"JSON":             {json, ""},
		"JSON and newline": {"\ufeff" + json + "\n", ""},
		"cut events":       {`{"Action":"output","Output":"BenchmarkA-2 10 5 ns/op\n"}` + "\n" + `{"Action":"outp`, cut},
		"twice":            {bench + other + bench + other, twice},
		"equal values":     {bench + bench + bench, ""},
		"three times":      {bench + other + bench + other + bench + other, three},
		"equal parts":      {bench + other + bench, ""},
	} {
		out, stderr, code := called(t, "analyse", file(t, "x.txt", x.text))
		for _, warning := range []string{cut, twice, three} {
			has := strings.Contains(strings.Join(strings.Fields(out), " "), warning)
			if code != 0 || has != (warning == x.want) {
				t.Errorf("%s: %q is there: %v\n%s%s", name, warning, has, out, stderr)
			}
		}
	}
	a, b := file(t, "a.txt", bench), file(t, "b.txt", bench)
	out, _, _ := called(t, "analyse", a, b)
	want := b + " has the same content as " + a
	if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("%s lacks %q", out, want)
	}
	// A gate would pass whatever the right file contains. Repetitions may be equal.
	for _, x := range [][2]string{{a, b}, {a, a}} {
		if out, stderr, code := called(t, "analyse", x[0], x[1], "--fail-on", "missing"); code != 2 || out != "" ||
			!strings.Contains(stderr, x[1]+" has the same content as "+a) {
			t.Errorf("%d, %s%s", code, out, stderr)
		}
	}
	if _, stderr, code := called(t, "analyse", "old="+a, "old="+b, "--fail-on", "missing"); code != 0 {
		t.Error(code, stderr)
	}
}

// Every warning names its file, also one of a format that knows no line for it.
func TestWarningsNameTheirFile(t *testing.T) {
	const text = `{"context":{"num_cpus":2,"mhz_per_cpu":3000,"library_build_type":"debug"},"benchmarks":[` +
		`{"name":"BM_a","iterations":10,"real_time":5,"cpu_time":5,"time_unit":"ns"}]}`
	debug := file(t, "old.json", text)
	release := file(t, "new.json", strings.Replace(text, "debug", "release", 1))
	out, stderr, code := called(t, "analyse", debug, release, "--json")
	if code != 0 || strings.Count(out, "was built for debugging") != 1 ||
		!strings.Contains(out, `"`+debug+`: The library of Google Benchmark was built for debugging`) {
		t.Errorf("%s, %s, %d", out, stderr, code)
	}
}

// The last copy may lack the end of its line, and a part of a copy is none.
func TestCopies(t *testing.T) {
	for text, want := range map[string]int{"": 1, "a\n": 1, "a\nb\n": 1, "a\na\n": 1, "a\nb\na\nb": 2, "a\nb\na\n": 1,
		"a\nb\nb\na\nb\nb\na\nb\nb\n": 3, "aa\n": 1, "\n\n\n": 1,
		"a\na\na\na\n": 1} {
		if got := copies([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// A reader that was chosen, or that recognizes a file, says itself what is wrong in it.
func TestTheReaderExplainsItsOwnFiles(t *testing.T) {
	const (
		sysbench = "sysbench 1.1.0 (using bundled LuaJIT)\n\nRunning the test with following options:\n" +
			"Number of threads: 4\n\nThroughput:\n         read:  IOPS=0.00 0.00 MiB/s (0.00 MB/s)\n" +
			"         write: IOPS=9057.41 88.45 MiB/s (92.75 MB/s)\n"
		fio = "a: (g=0): rw=randread, bs=(R) 4096B-4096B\nfio-3.33\n{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n"
	)
	for _, x := range []struct{ from, text, not string }{
		{"", sysbench, "the text of fio"},
		{"sysbench", sysbench, "the text of fio"},
		{"", fio, "the text of fio"},
		{"go", "Benchmark 1: sleep 0.1\n  Time (mean ± σ):     102.2 ms ±   0.5 ms\n", "the text of hyperfine"},
	} {
		args := []string{"analyse", file(t, "x.txt", x.text)}
		if x.from != "" {
			args = append(args, "--from", x.from)
		}
		_, stderr, code := called(t, args...)
		if code != 2 || !strings.Contains(stderr, "x.txt:") || strings.Contains(stderr, x.not) {
			t.Errorf("--from %q: %d, %s", x.from, code, stderr)
		}
	}
	_, stderr, _ := called(t, "analyse", file(t, "x.txt", fio))
	if !strings.Contains(stderr, "the JSON ends too early") {
		t.Error(stderr)
	}
}

// A metric that one file lacks, and a block that lacks a side, are missing.
func TestWhatOneSideLacksIsMissing(t *testing.T) {
	both := file(t, "old.txt", "BenchmarkA-2 10 5 ns/op 7 B/op\n")
	one := file(t, "new.txt", "BenchmarkA-2 10 5 ns/op\n")
	const head = "block,position,contender,workload,metric,unit,better,value\n"
	var rows strings.Builder
	for block := range 8 {
		fmt.Fprintf(&rows, "%d,0,a,w,m,s,lower,1.%d\n%d,1,b,w,m,s,lower,1.%d\n", block, block, block, block)
	}
	full := file(t, "t.csv", head+rows.String())
	short := file(t, "t.csv", head+rows.String()+"8,0,a,w,m,s,lower,1\n9,0,a,w,m,s,lower,1\n")
	failed := file(t, "t.csv", head+rows.String()+"8,0,a,w,m,s,lower,1\n8,1,b,w,m,s,lower,failed\n")
	all := head + rows.String()
	renamed := file(t, "t.csv", strings.ReplaceAll(all, "b,w,", "b,v,"))
	cell := file(t, "t.csv", all+"0,0,a,v,m,s,lower,1\n")
	baseless := file(t, "t.csv", all+"0,0,b,v,m,s,lower,1\n")
	metric := file(t, "t.csv", all+"0,0,a,w,n,s,lower,1\n")
	apart := file(t, "t.csv", head+"0,0,a,w,m,s,lower,1\n1,0,b,w,m,s,lower,1\n")
	const old, now = "v: old\nBenchmarkA-2 10 5 ns/op\n", "v: new\nBenchmarkA-2 10 5 ns/op\n"
	version := file(t, "x.txt", old+"BenchmarkB-2 10 5 ns/op\n"+now)
	without := file(t, "x.txt", "BenchmarkA-2 10 5 ns/op\n"+old+now)
	for _, x := range []struct {
		args string
		want string
		code int
	}{
		{version + " --contender v --fail-on missing", "--fail-on missing: new at B is missing: no file has a value", 3},
		{version + " --contender v", "missing: new at B: no file has a value", 4},
		{without + " --contender v --fail-on missing", `--fail-on missing: 1 result without "v"`, 3},
		{both + " " + one + " --fail-on missing", "new at A is missing", 3},
		{both + " " + one, "no file has a value of B/op", 4},
		{both + " " + both, "", 0},
		{short + " --fail-on missing", "b w m: 2 blocks of a table lack trials", 3},
		{short, "2 of 10 blocks lack b and do not count", 4},
		{full + " --fail-on missing", "", 0},
		{renamed + " --fail-on missing", "--fail-on missing: a at v is missing", 3},
		{renamed, "b has no result at w: no values", 4},
		{cell + " --fail-on missing", "--fail-on missing: b at v is missing", 3},
		{cell + " --fail-on failed", "b has no result at v: no values", 4},
		{baseless, "a has no result at v: no values", 4},
		{metric + " --fail-on missing", "--fail-on missing: b w n: 1 block of a table lack trials", 3},
		{metric, "1 of 1 blocks lack b and do not count; no block is left", 4},
		{apart + " --fail-on worse --baseline a", "b w m: no block has all trials of both sides measure both sides", 6},
		{failed + " --fail-on missing", "", 0},
	} {
		out, stderr, code := called(t, append([]string{"analyse"}, strings.Fields(x.args)...)...)
		if text := strings.Join(strings.Fields(out+stderr), " "); code != x.code || !strings.Contains(text, x.want) {
			t.Errorf("analyse %s: %d, want %d and %q: %s", x.args, code, x.code, x.want, text)
		}
	}
}

// Without --baseline, the order of measurement would decide which side can be worse. No
// measurement gives a table a twin.
func TestConditionsOfTables(t *testing.T) {
	var rows, blocks strings.Builder
	rows.WriteString("block,position,contender,workload,metric,unit,better,value\n")
	for block := range 8 {
		fmt.Fprintf(&rows, "%d,0,new,w,m,s,lower,1.1%d\n%d,1,old,w,m,s,lower,1.0%d\n", block, block, block, block)
		fmt.Fprintf(&blocks, "block: %d\nv: new\nBenchmarkA 10 11%d ns/op\nv: old\nBenchmarkA 10 10%d ns/op\n", block, block,
			block)
	}
	table, bench := file(t, "t.csv", rows.String()), file(t, "x.txt", blocks.String())+" --contender v"
	const refused = "needs --baseline: the first contender of the values is not necessarily the " +
		"baseline; set --baseline to one of new, old"
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{table + " --fail-on worse", "--fail-on worse " + refused, 2},
		{table + " --fail-on missing,better", "--fail-on better " + refused, 2},
		{table + " --fail-on m>+5%", "--fail-on m>+5% " + refused, 2},
		{bench + " --fail-on worse-than-margin", "--fail-on worse-than-margin " + refused, 2},
		{table + " --fail-on missing,failed,inconclusive", "", 3},
		{table + " --baseline old --fail-on worse", "check order failed: new ran before old in all 8", 6},
		{table + " --fail-on twin", "the results have no twin, which is a second copy of the baseline", 6},
	} {
		out, stderr, code := called(t, append([]string{"analyse"}, strings.Fields(x.args)...)...)
		if code != x.code || !strings.Contains(stderr, x.want) || code == 2 && out != "" ||
			strings.HasSuffix(x.args, "twin") && strings.Contains(stderr, "measure") {
			t.Errorf("analyse %s: %d, want %d and %q: %s", x.args, code, x.code, x.want, stderr)
		}
	}
}
