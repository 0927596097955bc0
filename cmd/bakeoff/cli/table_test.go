package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestATableThatIsTooWideHasItsLastColumnBelow(t *testing.T) {
	tab := NewTable("NAME", "IMAGE", "MEMORY", "HERE")
	tab.Row("host", "debian:bookworm", "256MiB", "ready: something that takes more than one line here")
	var out strings.Builder
	tab.Print(&out, Style{}, 40)
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 41 {
			t.Errorf("wider than 40 columns: %q", line)
		}
	}
	want := "host  debian:bookworm  256MiB\n      ready: something that takes more\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
	if want := "NAME  IMAGE            MEMORY  HERE\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the head does not fit in one line:\n%s", out.String())
	}
	out.Reset()
	tab.Print(&out, Style{}, 32)
	if want := "NAME  IMAGE            MEMORY\n      HERE\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("without room the last word of the head is not below:\n%s", out.String())
	}
	out.Reset()
	tab.Print(&out, Style{}, 80)
	if !strings.Contains(out.String(), "256MiB  ready: something that takes more than one line") {
		t.Errorf("with room for it the last column stands beside:\n%s", out.String())
	}
}
