package pagetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bad is a page with one mistake of each kind that a browser can see.
const bad = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Bad</title></head>
<body><h1>Bad</h1><p style="color: #ccc">Pale text</p><div style="width: 2000px">wide</div>
<p id="late"></p><script>
document.getElementById('late').textContent = 'needs a script';
console.error('wrong');
fetch('http://192.0.2.1/');
</script></body></html>`

// A mistake of each kind is found.
func TestMistakesAreFound(t *testing.T) {
	b := Open(t)
	file := filepath.Join(t.TempDir(), "bad.html")
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.openPage(t, addressOf(t, file), View{360, "light"}, true)
	found := strings.Join(append(s.problems, s.violations...), "\n")
	for _, want := range []string{"external request: http://192.0.2.1/", "console.error: ", "color-contrast", "landmark"} {
		if !strings.Contains(found, want) {
			t.Errorf("not found: %s, in\n%s", want, found)
		}
	}
	m := s.measured
	if m.Over < 1600 || len(m.Wide) == 0 || m.Policy != "" || s.bytes < int64(len(bad)) || len(s.requests) != 2 {
		t.Errorf("%d bytes, requests %q, %+v", s.bytes, s.requests, m)
	}
	if s.plain == m.Text || !strings.Contains(m.Text, "needs a script") || strings.Contains(s.plain, "needs a script") {
		t.Errorf("text without JavaScript %q, with it %q", s.plain, m.Text)
	}
	problems := mistakes(t, modules(t), addressOf(t, file))
	if len(problems) != 0 {
		t.Errorf("valid HTML has %q", problems)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(bad, "<p id", "<p><div></p><p id", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := mistakes(t, modules(t), addressOf(t, file)); len(problems) == 0 {
		t.Error("an unclosed element is valid")
	}
}
