package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"bakeoff/measure/codec"
	"bakeoff/measure/corpus"
)

// totals is a program for Python: it reads records, each after its length, and prints the
// size that zlib gives all of them, for every level that is an argument.
const totals = `
import struct, sys, zlib
records = []
while True:
    head = sys.stdin.buffer.read(4)
    if not head:
        break
    records.append(sys.stdin.buffer.read(struct.unpack("<I", head)[0]))
for level in sys.argv[1:]:
    print(sum(len(zlib.compress(r, int(level))) for r in records))
`

// The error that compress-estimate states holds against the real zlib: for mail, for one
// long text and for a program, in the records of ZFS.
func TestErrorAgainstZlib(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: apt-get install python3")
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("needs /proc")
	}
	levels, sizes, most := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{4 << 10, 16 << 10, 128 << 10, 1 << 20}, 2<<20
	if testing.Short() {
		levels, sizes, most = []int{1, 6}, []int{4 << 10, 128 << 10}, 512<<10
	}
	var mail [][]byte
	var text []byte
	w := corpus.NewWriter(corpus.Mail{Files: corpus.Files, Seed: 6})
	for i := 0; len(text) < most; i++ {
		mail = append(mail, slices.Clone(w.Message(i)))
		text = append(text, mail[i]...)
	}
	program = program[:min(len(program), most)]
	for name, files := range map[string][][]byte{"mail": mail, "text": {text}, "program": {program}} {
		for _, size := range sizes {
			var records [][]byte
			for _, f := range files {
				records = append(records, slices.Collect(slices.Chunk(f, size))...)
			}
			for i, want := range zlibTotals(t, records, levels) {
				encoder, got := codec.NewDeflate(levels[i]), 0
				for _, r := range records {
					out, _ := encoder.Encode(nil, r, 2*len(r)+100)
					got += len(out)
				}
				off := float64(got)/float64(want) - 1
				t.Logf("%s in records of %d at level %d: off by %+.3f %%", name, size, levels[i], 100*off)
				if !(math.Abs(off) <= codec.DeflateError) {
					t.Errorf("%s in records of %d at level %d: %d bytes, and zlib gives %d", name, size, levels[i], got, want)
				}
			}
		}
	}
}

func zlibTotals(t *testing.T, records [][]byte, levels []int) (out []int) {
	t.Helper()
	var in []byte
	for _, r := range records {
		in = append(binary.LittleEndian.AppendUint32(in, uint32(len(r))), r...)
	}
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"-c", totals},
		strings.Fields(strings.Trim(fmt.Sprint(levels), "[]"))...)...)
	cmd.Stdin = bytes.NewReader(in)
	b, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		var n int
		rest := bytes.NewReader(b)
		if _, err := fmt.Fscanln(rest, &n); err != nil {
			t.Fatal(err)
		}
		out, b = append(out, n), b[len(b)-rest.Len():]
	}
	return out
}
