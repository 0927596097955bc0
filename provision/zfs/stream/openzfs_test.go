package stream

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// streamsOf is the folder with streams that OpenZFS 2.3.9 sent of volumes of 256 KiB, and with the
// SHA-256 of what their snapshots held. Each volume has random bytes, zeros, text, a block of one
// letter and a few bytes; its snapshot b has an overwritten and a discarded part.
const streamsOf = "testdata/openzfs"

func unpacked(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A volume that a real pool sends is decoded to the bytes that its snapshot held: with block sizes
// of 512 bytes to 128 KiB and several compressions, plain (zfs send) and as it is on the disk
// (zfs send -L -e -c), in full and as a change.
func TestStreamsOfOpenZFS(t *testing.T) {
	full, err := filepath.Glob(filepath.Join(streamsOf, "*.full.*.gz"))
	if err != nil || len(full) < 8 {
		t.Fatalf("%q, %v", full, err)
	}
	for _, file := range full {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			v := Volume{}
			for snapshot, stream := range []string{file, strings.Replace(file, ".full.", ".inc.", 1)} {
				if v, err = Decode(bytes.NewReader(unpacked(t, stream)), f, v); err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(filepath.Join(streamsOf, name+"."+string(rune('a'+snapshot))+".sum"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(f.Name())
				if err != nil {
					t.Fatal(err)
				}
				if sum := fmt.Sprintf("%x\n", sha256.Sum256(got)); sum != string(want) || v.Size != 256<<10 ||
					!strings.HasSuffix(v.Name, "@"+string(rune('a'+snapshot))) {
					t.Errorf("%s: %s of %d bytes has the SHA-256 %s, want %s", stream, v.Name, v.Size, sum, want)
				}
			}
		})
	}
}

// A stream with properties is one of several streams, even if it holds one snapshot.
func TestStreamWithProperties(t *testing.T) {
	_, _, err := decode(t, unpacked(t, filepath.Join(streamsOf, "lz4.properties.gz")))
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "send one snapshot, without -R and -p") {
		t.Errorf("%v", err)
	}
}
