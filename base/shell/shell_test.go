package shell

import (
	"os/exec"
	"testing"
)

func TestQuote(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"bakeoff", "report", "runs/a b"}, "bakeoff report 'runs/a b'"},
		{[]string{"echo", ""}, "echo ''"},
		{[]string{"it's", "$HOME", "a;b"}, `'it'\''s' '$HOME' 'a;b'`},
		{[]string{"--time=2m", "50%", "host~twin"}, "'--time=2m' 50% 'host~twin'"},
		{nil, ""},
	} {
		if got := Quote(c.argv...); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
}

// A shell executes the words as they were.
func TestQuoteForAShell(t *testing.T) {
	const odd = "a b'\"$`\\\n!*?~#&|<>()[]{};\t"
	out, err := exec.Command("sh", "-c", Quote("printf", "%s", odd)).Output()
	if err != nil || string(out) != odd {
		t.Errorf("%q, %v", out, err)
	}
}
