package compose

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/measure/execution"
	workloads "bakeoff/measure/workload/all"
	drivers "bakeoff/provision/driver/all"
)

var update = flag.Bool("update", false, "write the lab files that are expected")

func catalogue() manifest.Catalogue {
	return preflight.CatalogueOf(drivers.Drivers(), workloads.Parsers())
}

// line is what bakeoff try makes of a command line; names are flags as they are typed.
func line(args ...string) Request {
	r := Request{Shell: NoShell, Budget: 2 * time.Minute, Margin: 0.02, Line: append([]string{"bakeoff", "try"}, args...)}
	for i := 0; i < len(args); i++ {
		lists := map[string]*[]string{"-c": &r.Commands, "-n": &r.Names, "--in": &r.In, "-L": &r.Lists, "-P": &r.Ranges,
			"--setup": &r.Setup, "--prepare": &r.Prepare, "--cleanup": &r.Cleanup, "--metric": &r.Metrics,
			"--package": &r.Packages}
		texts := map[string]*string{"--shell": &r.Shell, "--cpus": &r.CPUs, "--memory": &r.Memory}
		switch a := args[i]; {
		case a == "--":
			r.Argv = args[i+1:]
			return r
		case a == "-i":
			r.IgnoreFailure = true
		case lists[a] != nil:
			i++
			*lists[a] = append(*lists[a], args[i])
		case texts[a] != nil:
			i++
			*texts[a] = args[i]
		default:
			r.Envs = append(r.Envs, a)
		}
	}
	return r
}

// Each command line stands for a lab file below testdata/try, which is valid and can be
// planned.
func TestTry(t *testing.T) {
	cat := catalogue()
	for name, r := range map[string]Request{
		"alone":    line("host", "--", "true"),
		"envs":     line("host", "crun:debian:bookworm", "microvm:debian:bookworm", "--", "sh", "-c", "echo 'a b'\ttwo"),
		"commands": line("-c", "gzip -9 big", "-c", "zstd -19 big", "--in", "host", "--in", "crun:debian:bookworm"),
		"list":     line("-c", "gzip -{level} -k 'big file'", "-L", "level=1,5,9"),
		"parts":    line("-c", "{tool} -k big", "-L", "tool=gzip -9,zstd -19"), // words that a list of words cannot hold
		"option":   line("crun:debian:bookworm", "-L", "runtime=a,b", "--", "job", "--runtime={runtime}"),
		"some":     line("-c", "gzip -k big", "-c", "xz -k -T {n} big", "-P", "n=1..2", "--prepare", "sync"),
		"two":      line("-c", "xz -{level} -T {n} big", "-L", "level=1,9", "-P", "n=1..2"),
		"range": line("bwrap:debian:bookworm", "--", "job", "--size={n}", "{n}", "-P").with(func(r *Request) {
			r.Argv, r.Ranges = r.Argv[:3], []string{"n=0.5..2,step=0.5"}
		}),
		"hooks": line("-c", "make -j{n}", "-c", "ninja -j{n}", "-P", "n=1..2", "--setup", "./configure",
			"--prepare", "make clean; sync", "--prepare", "ninja -t clean", "--cleanup", "rm -f out/{n}"),
		"metrics": line("host", "chroot:debian:bookworm", "--metric", "json:$.rps:higher",
			"--metric", "memory", "-i", "--cpus",
			"2", "--memory", "1GiB", "--", "server", "--bench"),
		"shell": line("-c", "sort big | uniq -c > /dev/null", "-c", "sort -u big", "--shell", "bash --norc", "-n", "pipe"),
		"packages": line("host", "crun:debian:bookworm", "--package", "python3,g++", "--package", "python3", "--",
			"python3", "-c", "print(1)"),
		"images": line("crun:debian:bookworm", "crun:debian:trixie", "docker:debian:bookworm", "--", "true"),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Try(r, cat)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "try", name+".yaml"), f.Text)
			lab, err := f.Load(cat)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plan.Expand(lab, cat, 1, "test"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// with changes a request that line cannot write.
func (r Request) with(change func(*Request)) Request {
	change(&r)
	return r
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
	}
}

// Whatever the words are, the lab file has exactly them.
func FuzzWords(f *testing.F) {
	cat := catalogue()
	for _, word := range []string{"a", "", "null", "~", "-", "--", "- a", "a: b", "#", "{x}", "[y]",
		"'", `"`, `\`, "a\tb", "a\nb",
		"é", "\u2028", "\u202e", "0x10", "1_000", "*x", "&x", "!x", "%", "@", "`", " a ", "a #b", "\ufeff", "true", "=",
		"-9", "=x",
		"\x7f", "\u0085", "\xff", "\x1b[2J", "\U0001f600", "...", "---", "?", ": ", ",", "a, b"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		file, err := Try(line("host", "--", "program", word), cat)
		if err != nil {
			if !validText(word) && strings.Contains(err.Error(), "not UTF-8") {
				return
			}
			t.Fatal(err)
		}
		lab, err := file.Load(cat)
		if err != nil {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "the command after --") {
				t.Fatalf("%q: %v", word, err)
			}
			return
		}
		if got := lab.Cells[0].Params.List("argv"); !slices.Equal(got, []string{"program", word}) {
			t.Errorf("%q is %q in\n%s", word, got, file.Text)
		}
	})
}

// A mistake is reported with the argument or the flag, and with what to write.
func TestTryMistakes(t *testing.T) {
	cat := catalogue()
	for _, c := range []struct {
		r    Request
		want string
	}{
		{line("host"), "the command is missing; write it after --, or with -c"},
		{line("hots", "--", "true"), `argument "hots": there is no driver "hots"; did you mean "host"?`},
		{line("host", "gzip", "--", "big"),
			`argument "gzip": there is no driver "gzip"; name a driver of bakeoff list drivers, and write a command after --`},
		{line("gzip -9 big"), "the command is missing; write it after --, or with -c"},
		{line("gzip -9 big", "-c", "zstd big"),
			`argument "gzip -9 big": there is no driver "gzip -9 big"; write a command after --, or with -c`},
		{line("crun", "--", "true"), `argument "crun" has no image, and driver oci needs one; write crun:debian:bookworm`},
		{line("--in", "crun:", "--", "true"), `--in "crun:" has no image, and driver oci needs one; ` +
			`write crun:debian:bookworm`},
		{line("host:debian:bookworm", "--", "true"),
			`argument "host:debian:bookworm": driver host does not use an image; write host`},
		{line("crun:debian:bookwrm", "--", "true"),
			`argument "crun:debian:bookwrm": there is no image "debian:bookwrm"; did you mean "debian:bookworm"?`},
		{line("crun:a b", "--", "true"), `argument "crun:a b": image is "a b"; write an image like debian:bookworm`},
		{line("host", "host", "--", "true"), `argument "host" is the same environment as argument "host"; remove one; ` +
			"bakeoff compares the baseline with a twin of itself in any case"},
		{line("-c", "true", "--", "true"), "there are two commands: one after --, and one with -c; use only one of the two"},
		{line("-c", "gzip < big"),
			`-c "gzip < big": only a shell understands the redirection "<", and bakeoff runs commands ` +
				"without a shell; quote the character, or add --shell sh"},
		{line("-c", "gzip 'big"), "-c \"gzip 'big\": reached EOF without closing quote `'`; write a command as for a shell"},
		{line("-c", ""), `-c "": the command is empty; write a command as for a shell`},
		{line("--", "cat big | wc -l"), `the command after -- is the one word "cat big | wc -l", not a program with ` +
			"arguments; write it without quotes, or write -c instead of --"},
		{line("--", ""), "the command after -- names no program; write the program first"},
		{line("--shell", "sh", "--", "true"), "--shell does not apply to a command after --; write the command with -c"},
		{line("--shell", "'", "-c", "a"), "--shell: reached EOF without closing quote `'`; write the " +
			"program of a shell, such as sh"},
		{line("-c", "true", "-n", "a", "-n", "b"),
			"there are 2 names (option -n) for 1 commands; write at most one for each command"},
		{line("-c", "a", "--prepare", "b", "--prepare", "c"),
			"there are 2 values of --prepare for 1 commands; write one for all commands, or one for each"},
		{line("-c", "a", "--prepare", "b 'c"),
			"--prepare \"b 'c\": reached EOF without closing quote `'`; write a command as for a shell"},
		{line("-L", "level", "-c", "true"), `-L "level" is not NAME=VALUES; write -L level=1,5,9`},
		{line("-L", "level", "1,5,9", "-c", "gzip -{level}"), `-L "level" is not NAME=VALUES; write -L level=1,5,9`},
		{line("-P", "n", "1", "8", "-c", "a {n}"),
			`-P "n" is not NAME=VALUES; write -P threads=1..8 or -P size=0.5..2,step=0.5`},
		{line("-c", "LC_ALL=C sort big"), `-c "LC_ALL=C sort big": only a shell understands an assignment before the ` +
			"program, and bakeoff runs commands without a shell; write env before it, or add --shell sh"},
		{line("-c", "cd x; make"), `-c "cd x; make": only a shell understands several commands, and bakeoff runs commands ` +
			"without a shell; add --shell sh"},
		{line("-c", "if a; then b; fi"), `-c "if a; then b; fi": only a shell understands a compound command, and bakeoff ` +
			"runs commands without a shell; add --shell sh"},
		{line("-L", "level=1,1", "-c", "a {level}"), `-L "level=1,1" has the value "1" twice; remove one of them`},
		{line("-L", "level=1,5", "-c", "true"), `-L "level=1,5": no command contains {level}; write ` +
			`{level} where its value belongs`},
		{line("-L", "n=1", "-P", "n=1..2", "-c", "a {n}"),
			`-P "n=1..2": parameter n has values already; choose another name`},
		{line("-P", "n=8..1", "-c", "a {n}"), `-P "n=8..1": the range is empty; write n=1..8`},
		{line("-P", "n=1-8", "-c", "a {n}"),
			`-P "n=1-8" is not a range of numbers; write -P threads=1..8 or -P size=0.5..2,step=0.5`},
		{line("-P", "n=1..8,step=0", "-c", "a {n}"), `-P "n=1..8,step=0": the step is 0; write a step above 0`},
		{line("-P", "n=1..999999999", "-c", "a {n}"), `-P "n=1..999999999" has more than 64 values; write fewer`},
		{line("host", "bwrap:debian:bookworm", "-P", "n=1..40", "-c", "a {n}"),
			"the environments, commands and values make more than 64 contenders; name fewer of them"},
		{line("--metric", "json:$.rps", "-c", "a"),
			`--metric "json:$.rps" does not say whether higher or lower values are better; ` +
				"write json:$.rps:higher or json:$.rps:lower"},
		{line("--metric", "json:rps:higher", "-c", "a"),
			`--metric "json:rps:higher": invalid path "rps"; write $.name, $["name"] or $.list[0]; [-1] is the last element`},
		{line("--metric", "speed", "-c", "a"), `--metric "speed" is not a metric; use wall, cpu, memory, cpu-per-op or ` +
			"joules-per-op, or find a number in the output, as in --metric 'json:$.rps:higher'"},
		{line("--metric", "wall", "--metric", "wall", "-c", "a"),
			`--metric "wall": there is --metric "wall" already; remove one of them`},
		{line("--cpus", "0", "-c", "a"), "--cpus: 0 is not between 1 and 1024; write a whole number from 1 to 1024"},
		{line("--cpus", "many", "-c", "a"), `--cpus: "many" is not a whole number; write a whole number from 1 to 1024`},
		{line("--memory", "lots", "-c", "a"), `--memory: "lots" is not a size; write 4KiB, 512MiB or 1.5GB`},
		{line("--package", "python3,Zstd", "-c", "a"),
			`--package: an item of packages is "Zstd"; write the name of a Debian package like python3`},
		{line("--package", "python3,", "-c", "a"),
			`--package: an item of packages is ""; write the name of a Debian package like python3`},
		{line("-c", "a").with(func(r *Request) { r.Margin = 7 }),
			"--margin: 7 is not between 0.0001 and 0.5; write 7%"},
		{line("--", "a\xff"), "the command after -- contains bytes that are not UTF-8; a lab file holds only text; " +
			"write the bytes another way, such as with printf"},
		{line("--", "a\rb"), "the command after --: an item of argv contains a carriage return; end " +
			"lines with a line feed only"},
	} {
		f, err := Try(c.r, cat)
		if err == nil {
			_, err = f.Load(cat)
		}
		if err == nil || err.Error() != c.want || !fault.Is(errors.Join(err), fault.Invalid) {
			t.Errorf("%q:\n%v, want\n%s", c.r.Line, err, c.want)
		}
	}
}

// A shell would split a text so, and nothing else is taken for words.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		err  string
	}{
		{"gzip -9 big", []string{"gzip", "-9", "big"}, ""},
		{` a  'b c' "d e" f\ g ''`, []string{"a", "b c", "d e", "f g", ""}, ""},
		{`a"b"'c'\d`, []string{"abcd"}, ""},
		{`"a\$b\"c\d" '\$'`, []string{`a$b"c\d`, `\$`}, ""},
		{"a \\\n b", []string{"a", "b"}, ""},
		{`awk '{print $1}' {x} a=b`, []string{"awk", "{print $1}", "{x}", "a=b"}, ""},
		{`a \* "*" '?' \~ b~`, []string{"a", "*", "*", "?", "~", "b~"}, ""},
		{"a # b", []string{"a"}, ""},
		{"a | b", nil, `the operator "|"`}, {"a && b", nil, `the operator "&&"`}, {"a; b", nil, "several commands"},
		{"a > b", nil, `the redirection ">"`}, {"a 2>&1", nil, `the redirection ">&"`}, {"a &", nil, `"&"`},
		{"! a", nil, `"!"`}, {"a *.c", nil, `the pattern "*"`}, {"a x?", nil, `the pattern "?"`}, {"~/a", nil, `"~"`},
		{"a [b]", nil, `the pattern "["`}, {"a $HOME", nil, "the variable $HOME"}, {`a "$HOME"`, nil, "the variable $HOME"},
		{"a $(b)", nil, "a command substitution"}, {"a `b`", nil, "a command substitution"},
		{"a $((1))", nil, "an arithmetic expansion"}, {"A=1 a", nil, "an assignment before the program"},
		{"{ a; }", nil, "a compound command"}, {"if a; then b; fi", nil, "a compound command"},
		{"", nil, "empty"}, {" # a", nil, "empty"}, {"'a", nil, "quote"}, {"a )", nil, ")"},
	} {
		got, err := Split(c.text)
		if c.err == "" && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%q is %q (%v), want %q", c.text, got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q is %q, error %v, want %q", c.text, got, err, c.err)
		}
	}
}

// FuzzSplit gives any text: no panic, and quoted words come back as they were.
func FuzzSplit(f *testing.F) {
	f.Add("gzip -9 'big file' \"$x\" a\\ b")
	f.Add("\\")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = Split(text)
		if strings.ContainsAny(text, "\x00\r") || !validText(text) {
			return
		}
		quoted := "p '" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		if got, err := Split(quoted); err != nil || len(got) != 2 || got[1] != text {
			t.Errorf("%q is %q (%v)", quoted, got, err)
		}
	})
}

func validText(s string) bool { return strings.ToValidUTF8(s, "") == s }

// Every other name of a driver is understood.
func TestEveryNameOfADriver(t *testing.T) {
	cat := catalogue()
	for _, name := range driverNames(cat) {
		e, err := usual(name, "x", cat)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f, err := Try(Request{Envs: []string{e.text}, Argv: []string{"true"}, Shell: NoShell}, cat)
		if err == nil {
			_, err = f.Load(cat)
		}
		if err != nil {
			t.Errorf("%s: %v", e.text, err)
		}
	}
	if all := Envs(cat); !slices.Contains(all, "host") || !slices.Contains(all, "crun:debian:bookworm") ||
		!slices.Contains(all, "microvm:debian:bookworm") || slices.Contains(all, "kvm:debian:bookworm") {
		t.Errorf("completion offers %q", all)
	}
}

// An image of any form reaches the lab file as it is: manifest and driver judge it.
func TestEnvIsDriverAndImage(t *testing.T) {
	e, err := ParseEnv("docker:alpine:3.20", "x", catalogue())
	if err != nil || e.driver.Name != "docker" || e.image != "alpine:3.20" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		commands []string
		given    []string
		want     []string
	}{
		{[]string{"gzip -9 big", "/usr/bin/zstd -19 big"}, nil, []string{"gzip", "zstd"}},
		{[]string{"gzip -1 big", "gzip -9 big", "gzip big"}, nil, []string{"gzip-1", "gzip-9", "gzip"}},
		{[]string{"sleep 0.01", "sleep 0.02"}, nil, []string{"sleep-0.01", "sleep-0.02"}},
		{[]string{"a x", "a x"}, nil, []string{"a", "a-2"}},
		{[]string{"./old/p", "./new/p"}, nil, []string{"old-p", "new-p"}},
		{[]string{"/src/old/bin/p big", "/src/new/bin/p big"}, nil, []string{"old-p", "new-p"}},
		{[]string{"p -x", "./p -x", "../p -x"}, nil, []string{"p", "p-2", "p-3"}},
		{[]string{"p", "./old/p -r", "./new/p", "q"}, nil, []string{"p", "old-p-r", "new-p", "q"}},
		{[]string{"a | b", "'"}, []string{"Old Way!"}, []string{"old-way", "contender"}},
		{[]string{"x " + strings.Repeat("y", 60), "x " + strings.Repeat("y", 61)}, nil,
			[]string{"x-" + strings.Repeat("y", 38), "x-" + strings.Repeat("y", 36) + "-2"}},
	} {
		var words [][]string
		for _, text := range c.commands {
			words = append(words, wordsOf(text))
		}
		if got := distinct(commandNames(words, c.given)); !slices.Equal(got, c.want) {
			t.Errorf("%q are called %q, want %q", c.commands, got, c.want)
		}
	}
}

// Words that are files of the current folder are named if an environment lacks them.
func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		envs []string
		want int
	}{{[]string{"host"}, 0}, {[]string{"host", "crun:debian:bookworm"}, 1}} {
		r := line(append(c.envs, "--", "python3", "job.py", "-v", "/etc/passwd", "other")...)
		r.Dir = "/home/me"
		r.Exists = func(name string) bool { return name == "job.py" || name == "-v" || name == "/etc/passwd" }
		f, err := Try(r, catalogue())
		if err != nil || len(f.Notes) != c.want || c.want > 0 && !strings.HasPrefix(f.Notes[0], "job.py is in ") {
			t.Errorf("%q: %q, %v", c.envs, f.Notes, err)
		}
		if has := strings.Contains(string(f.Text), "workdir: /home/me"); has != (c.want == 0) {
			t.Errorf("%q:\n%s", c.envs, f.Text)
		}
	}
}

// What a host lacks is reported in the words of the command line, and its limits with
// the flag that asked for too much.
func TestExplain(t *testing.T) {
	f, err := Try(line("host", "--cpus", "3", "--", "gzp"), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	absent := preflight.Absence{File: execution.File{Param: "argv", Path: "gzp"}, Cell: Cell, Contenders: []string{"host"}}
	other := fault.New(fault.Lab, "no disk")
	got := f.Explain(errors.Join(fault.WithFix(fault.New(fault.Invalid, "cell try: %w", absent), "write argv: …"), other))
	want := "the command: there is no program gzp in contender host; install it, or name one that every " +
		"environment has\nno disk"
	if got.Error() != want || f.Explain(nil) != nil {
		t.Errorf("%v, want %s", got, want)
	}
	absent.Built = true
	if got := f.Explain(absent).Error(); !strings.HasSuffix(got, "; name the Debian package that contains it with "+
		"--package, or name a program that every environment has") {
		t.Error(got)
	}
	absent.Built, absent.Given = false, []string{"alpine:3.20"}
	if got := f.Explain(absent).Error(); !strings.HasSuffix(got, "; place it with --file, or name one that every "+
		"environment has: bakeoff installs no packages in alpine:3.20") {
		t.Error(got)
	}
	lab, err := f.Load(catalogue())
	if err != nil || lab.Contenders[0].Where["cpus"] != "--cpus" || lab.Contenders[0].Where["memory"] != "" {
		t.Errorf("%v, %v", lab, err)
	}
}

// A program whose path contains spaces is one word.
func TestAPathMayContainSpaces(t *testing.T) {
	for _, path := range []string{"/opt/my tool/run", "./my tool"} {
		f, err := Try(line("--", path), catalogue())
		if err != nil || !strings.Contains(string(f.Text), "argv: ['"+path+"']") {
			t.Errorf("%s: %v\n%s", path, err, f.Text)
		}
	}
}
