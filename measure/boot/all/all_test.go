package all

import (
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/labeled"
	"bakeoff/base/lists"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/boottest"
)

// Every stored file is claimed by its own source and, if its lines have time stamps, by
// dmesg, which is asked last. The log of a Linux is one of linux, too.
func TestEverySampleHasOneSource(t *testing.T) {
	paths, err := filepath.Glob("../*/testdata/*.txtar*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, path := range paths {
		if strings.HasSuffix(path, ".want") {
			continue
		}
		own := strings.Split(path, "/")[1]
		for _, f := range boottest.Load(t, path).Files {
			for name, data := range map[string][]byte{
				"as it is":          f.Data,
				"with CR LF":        []byte(strings.ReplaceAll(string(f.Data), "\n", "\r\n")),
				"with a mark":       append([]byte{0xef, 0xbb, 0xbf}, f.Data...),
				"with a zero byte":  append(f.Data[:len(f.Data):len(f.Data)], 0),
				"without its end":   f.Data[:len(f.Data)-3],
				"with a wrong line": append([]byte("console: something else\n"), f.Data...),
			} {
				data = labeled.Clean(data)
				found := lists.Map(Recognize(data), func(s boot.Source) string { return s.Doc().Name })
				want := own
				if own == "dmesg" && strings.Contains(string(f.Data), "Linux version ") {
					want = "linux"
				}
				if len(found) == 0 || found[0] != want || len(found) > 2 || len(found) == 2 && found[1] != "dmesg" {
					t.Errorf("%s: %s %s is claimed by %q, want %s", path, f.Name, name, found, want)
					continue
				}
				for _, s := range Sources() {
					if s.Doc().Name != want {
						continue
					}
					_, whole := s.Read(f.Name, f.Data)
					if _, err := s.Read(f.Name, data); err != nil && whole == nil {
						t.Errorf("%s: %s %s: %v", path, f.Name, name, err)
					}
				}
				seen[own]++
			}
		}
	}
	for _, s := range Sources() {
		if seen[s.Doc().Name] == 0 {
			t.Errorf("%s has no sample", s.Doc().Name)
		}
	}
}
