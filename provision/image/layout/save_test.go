package layout

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What Save writes has the bytes of the configuration and of each layer once, and the list
// names them.
func TestSave(t *testing.T) {
	l, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string, kind types.MediaType) v1.Descriptor {
		d, err := l.PutBytes([]byte(text), kind)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: put(`{"os":"linux"}`, types.OCIConfigJSON)}
	one, two := put("one", types.OCILayer), put("two", types.OCILayer)
	m.Layers = []v1.Descriptor{one, two, one}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := l.Save(t.Context(), put(string(b), types.OCIManifestSchema1), "name:tag", &out); err != nil {
		t.Fatal(err)
	}
	got, order := map[string]string{}, []string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(text)
		order = append(order, h.Name)
	}
	first, second := one.Digest.Hex+".tar", two.Digest.Hex+".tar"
	config := m.Config.Digest.Hex + ".json"
	want := `[{"Config":"` + config + `","RepoTags":["name:tag"],"Layers":["` +
		strings.Join([]string{first, second, first}, `","`) + `"]}]`
	if got[config] != `{"os":"linux"}` || got[first] != "one" || got[second] != "two" || got["manifest.json"] != want ||
		len(order) != 4 {
		t.Errorf("%q in the order %q", got, order)
	}
}
