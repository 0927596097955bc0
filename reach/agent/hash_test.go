package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHashIsOfTheExecutable(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if got, err := Hash(); err != nil || got != hex.EncodeToString(sum[:]) {
		t.Errorf("hash is %s (%v), want %x", got, err, sum)
	}
}

// The memory answers for the same file only, and is not believed otherwise.
func TestHashOnce(t *testing.T) {
	right, err := Hash()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hash")
	for range 2 {
		if got, err := HashOnce(path); err != nil || got != right {
			t.Fatalf("hash is %s (%v), want %s", got, err, right)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var good remembered
	if err := json.Unmarshal(b, &good); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("0f", 32)
	for name, c := range map[string]struct {
		change func(m *remembered)
		want   string
	}{
		"the same file":  {func(m *remembered) { m.SHA256 = other }, other},
		"another size":   {func(m *remembered) { m.SHA256 = other; m.Size++ }, right},
		"another time":   {func(m *remembered) { m.SHA256 = other; m.MtimeNS++ }, right},
		"half of a hash": {func(m *remembered) { m.SHA256 = "0f" }, right},
	} {
		m := good
		c.change(&m)
		b, _ := json.Marshal(m)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := HashOnce(path); err != nil || got != c.want {
			t.Errorf("%s: hash is %s (%v), want %s", name, got, err, c.want)
		}
	}
	if got, err := HashOnce("/does/not/exist"); err != nil || got != right {
		t.Errorf("where it cannot remember: %s (%v)", got, err)
	}
}
