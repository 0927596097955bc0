package site

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The state of the last build may be damaged, or a stranger's: it is decoded or counts as
// none, and one of another program keeps only what was written.
func FuzzState(f *testing.F) {
	dir := blog(f, map[string]string{"src/a.md": "---\ntitle: A\ndate: 2025-01-01\n---\nText.\n"})
	buildSite(f, dir, Option{})
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("{}\n{}"))
	f.Add([]byte(`{"../x":{"p":null}}` + "\n" + `{"output":{"../../x":{"s":-1}},"runs":{"a":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		const engine = "of no program"
		if bytes.Contains(text, []byte(engine)) {
			return
		}
		s := decodeState(text, engine)
		if s.Engine != engine || s.Files == nil {
			t.Fatalf("%+v", s)
		}
		for name, e := range s.Output {
			if e.Key != "" {
				t.Errorf("%q of another program counts as written", name)
			}
		}
	})
}
