package source

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"bakeoff/base/fault"
)

func TestEntries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "image-sources.json")
	all, err := Load(file)
	if err != nil || !reflect.DeepEqual(all, Defaults) {
		t.Fatalf("%v, %v", all, err)
	}
	if _, err := Add(all, all[0]); !fault.Is(err, fault.Invalid) {
		t.Errorf("a second source of the name: %v", err)
	}
	if _, err := Add(all, Entry{Name: "a/b"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name with a slash: %v", err)
	}
	if all, err = Add(all, Entry{"mine", "registry", "docker.io"}); err != nil {
		t.Fatal(err)
	}
	if err := Save(file, all); err != nil {
		t.Fatal(err)
	}
	back, err := Load(file)
	if err != nil || !reflect.DeepEqual(back, all) || len(Defaults) != 2 {
		t.Errorf("%v, %v", back, err)
	}
	if err := Save(file, nil); err != nil {
		t.Fatal(err)
	}
	if back, err := Load(file); err != nil || len(back) != 0 {
		t.Errorf("an empty list is not the first list: %v, %v", back, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); !fault.Is(err, fault.Invalid) || fault.Fix(err) == "" {
		t.Errorf("a damaged file: %v", err)
	}
}

func FuzzParseEntries(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/image-sources/v1","sources":[{"name":"a","kind":"alpine","address":"https://x"}]}`))
	f.Add([]byte(`{"schema":"bakeoff/image-sources/v1","sources":[{"name":"../a"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ParseEntries(b)
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
		for _, e := range all {
			if e.Name == "" || filepath.Base(e.Name) != e.Name {
				t.Errorf("%+v", e)
			}
		}
	})
}
