package ssh

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/shell"
)

// words asks a real shell which words it sees in a line.
func words(t *testing.T, login, line string) []string {
	t.Helper()
	cmd := exec.Command(login, "-c", line)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s -c %q: %v", login, line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// printed is an argument vector that prints its arguments, each with a NUL
// behind it.
func printed(args []string) []string {
	return append([]string{"sh", "-c", `for a; do printf '%s\000' "$a"; done`, "sh"}, args...)
}

// Whatever the words are, a shell executes exactly them: those of Quote a
// POSIX shell, those of a whole command line any login shell.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "'", `"`, `\`, "!!", "$HOME `id` $(id)", "new\nline", "*?[a]{b,c}~",
		"\x01\xff\x80", "-n", "%s%b\\0101", "ü✓", "#x", "a=b", ";&|<>()", `\0101`, "!\n!"} {
		f.Add(s, "x")
		f.Add("x", s)
	}
	shells := []string{"sh"}
	for _, other := range []string{"bash", "tcsh", "csh", "fish", "zsh", "busybox"} {
		if path, err := exec.LookPath(other); err == nil && other != "busybox" {
			shells = append(shells, path)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		args := []string{a, b}
		line, err := commandLine(printed(args))
		if strings.ContainsRune(a+b, 0) {
			if err == nil {
				t.Fatal("a NUL byte went through")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := words(t, "sh", shell.Quote(printed(args)...)); !slices.Equal(got, args) {
			t.Errorf("quoted: sh sees %q, want %q", got, args)
		}
		for _, login := range shells {
			if got := words(t, login, line); !slices.Equal(got, args) {
				t.Errorf("%s sees %q, want %q", login, got, args)
			}
		}
		if strings.ContainsAny(line, "!\n\r") {
			t.Errorf("the line has a character that csh changes: %q", line)
		}
	})
}

func TestTooLong(t *testing.T) {
	if _, err := commandLine([]string{"echo", strings.Repeat("x", commandLimit)}); err == nil {
		t.Error("a line that no system takes was accepted")
	}
}

// What Windows answers, whatever its shell prints before.
func TestParseWindows(t *testing.T) {
	for text, want := range map[string]site{
		"AMD64\r\nC:\\Users\\ann\\AppData\\Local\r\n": {goos: "windows", goarch: "amd64",
			cache: "/C:/Users/ann/AppData/Local/bakeoff/cache", state: "/C:/Users/ann/AppData/Local/bakeoff/state"},
		"Welcome\r\nARM64 \r\nD:\\ann b\r\n": {goos: "windows", goarch: "arm64", cache: "/D:/ann b/bakeoff/cache",
			state: "/D:/ann b/bakeoff/state"},
	} {
		if got, err := parseWindows(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "AMD64", "x86\r\nC:\\a\r\n", "AMD64\r\n%LOCALAPPDATA%\r\n", "AMD64\r\nC:\\a&b\r\n"} {
		if got, err := parseWindows(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A program with a blank in its path is one word in both shells, and what a shell would expand is
// refused.
func TestWindowsLine(t *testing.T) {
	argv := []string{`C:\ann b\agent.exe`, "host", "--silence", "2m0s"}
	for shell, want := range map[string]string{shellCMD: `"C:\ann b\agent.exe" host --silence 2m0s`,
		shellPowerShell: `& 'C:\ann b\agent.exe' host --silence 2m0s`} {
		if got, err := windowsLine(shell, argv); err != nil || got != want {
			t.Errorf("%s: %s, %v", shell, got, err)
		}
	}
	if line, err := windowsLine(shellCMD, []string{"a", "%PATH%"}); err == nil {
		t.Errorf("got %s", line)
	}
}

func FuzzParseWindows(f *testing.F) {
	f.Add("AMD64\r\nC:\\Users\\ann\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseWindows(text); err == nil && (s.cache[0] != '/' || !plainForWindows(s.state)) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}
