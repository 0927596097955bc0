package codec

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// inputs are of the kinds that file systems see.
func inputs() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the of and to in is that mail for it was on with as be server at by had not are but " +
		"from or have an they which one you were her all she there would their we him been has when who will more no if " +
		"out so said what up its about into than them can only other new some could time these two may then do first " +
		"any my now such like our over man me even most made after also")
	var text strings.Builder
	for text.Len() < 400_000 {
		text.WriteString(words[int(float64(len(words))*r.Float64()*r.Float64())])
		text.WriteByte(" \n ,"[r.IntN(4)])
		if r.IntN(40) == 0 {
			fmt.Fprintf(&text, "%d@example.org", r.IntN(1e6))
		}
	}
	t := []byte(text.String())
	noise := make([]byte, 150_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	sparse := make([]byte, 70_000)
	for range 900 {
		sparse[r.IntN(len(sparse))] = byte(r.Uint32())
	}
	return map[string][]byte{
		"text": t[:131072], "long text": t, "short text": t[:1700], "a line": t[:70], "noise": noise, "sparse": sparse,
		"zeros": make([]byte, 131072), "abc": bytes.Repeat([]byte("abcabcabd"), 9000), "empty": nil, "one": {'x'},
		"three": []byte("aaa"),
		"mixed": append(append(append([]byte{}, t[:50_000]...), noise[:50_000]...), t[40_000:90_000]...),
	}
}

// spared tells whether a level is left to the tests without -short: the race
// detector makes those that search long take most of a minute.
func spared(level int) bool { return testing.Short() && (level == 2 || level == 5 || level > 6) }

func encoders() map[string]struct {
	enc    Encoder
	decode func([]byte, int) ([]byte, error)
} {
	type pair = struct {
		enc    Encoder
		decode func([]byte, int) ([]byte, error)
	}
	m := map[string]pair{
		"lzjb": {&LZJB{}, unLZJB}, "lzjb-256": {&LZJB{Table: 256}, unLZJB}, "zle": {ZLE{}, unZLE}, "lz4": {&LZ4{}, unLZ4},
		"lzo": {&LZO{}, unLZO},
	}
	for level := 1; level <= 9; level++ {
		if spared(level) {
			continue
		}
		m[fmt.Sprintf("deflate-%d", level)] = pair{NewDeflate(level), unZlib}
		m[fmt.Sprintf("paged-deflate-%d", level)] = pair{NewPagedDeflate(level), unZlib}
	}
	for _, level := range ZstdLevels {
		z, _ := NewZstd(level)
		m[fmt.Sprintf("zstd-%d", level)] = pair{z, unZstd}
	}
	return m
}

func TestWhatIsCompressedIsReadBack(t *testing.T) {
	for name, c := range encoders() {
		for what, src := range inputs() {
			// Again: an encoder keeps its tables.
			for range 1 + 4096/(len(src)+4096) {
				out, ok := c.enc.Encode([]byte("before"), src, 2*len(src)+100)
				if strings.HasPrefix(name, "paged") && what == "noise" && !ok {
					continue // what grows is given up
				}
				if !ok || !bytes.HasPrefix(out, []byte("before")) {
					t.Errorf("%s of %s: gave up", name, what)
					continue
				}
				got, err := c.decode(out[6:], len(src))
				if err != nil || !bytes.Equal(got, src) {
					t.Errorf("%s of %s: %d bytes come back as %d: %v", name, what, len(src), len(got), err)
				}
			}
			if out, ok := c.enc.Encode(nil, src, len(src)/8); ok && len(out) > len(src)/8 {
				t.Errorf("%s of %s: %d bytes, where %d were to be had", name, what, len(out), len(src)/8)
			}
		}
	}
}

// nearSize checks the error of one size: 1 %, and some bytes.
func nearSize(t *testing.T, what string, got, want int) {
	t.Helper()
	off := got - want
	t.Logf("%s: %d bytes of %d, off by %+.3f %%", what, got, want, 100*float64(off)/float64(want))
	if max(off, -off) > want/100+fewBytes {
		t.Errorf("%s: %d bytes instead of %d", what, got, want)
	}
}

// fewBytes is how far a size may be off in addition to 1 %.
const fewBytes = 8

// The sizes are zlib's own within 1 %: testdata has what zlib.compress of
// Python 3 with zlib 1.2.13 on Debian 12 gave for the same inputs.
func TestSizesAreThoseOfZlib(t *testing.T) {
	text, err := os.ReadFile("testdata/zlib-1.2.13.txt")
	if err != nil {
		t.Fatal(err)
	}
	in, n := inputs(), 0
	for line := range strings.Lines(string(text)) {
		var level, want int
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "|")
		if _, err := fmt.Sscanf(rest, "%d|%d", &level, &want); err != nil {
			t.Fatal(err)
		}
		n++
		if spared(level) {
			continue
		}
		out, _ := NewDeflate(level).Encode(nil, in[name], 1<<30)
		nearSize(t, fmt.Sprintf("%s at level %d", name, level), len(out), want)
	}
	if n != 9*len(in) {
		t.Errorf("%d sizes for %d inputs", n, len(in))
	}
}

// So are those of its LZO: testdata has how long the sectors came out on Linux
// 6.18 (64 bits) – the input, where the extent begins, and each sector's bytes.
func TestSectorsAreThoseOfBtrfs(t *testing.T) {
	text, err := os.ReadFile("testdata/btrfs-lzo-6.18.txt")
	if err != nil {
		t.Fatal(err)
	}
	in, n := inputs(), 0
	var z LZO
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		at, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(line)
		}
		for i, want := range strings.Split(f[2], ",") {
			src := in[f[0]][at+i*page:]
			out, _ := z.Encode(nil, src[:min(page, len(src))], 2*page)
			if strconv.Itoa(len(out)) != want {
				t.Errorf("%s, sector %d from %d: %d bytes, and btrfs has %s", f[0], i, at, len(out), want)
			}
			n++
		}
	}
	if n < 100 {
		t.Errorf("%d sectors", n)
	}
}

func unZlib(b []byte, n int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, int64(n)+1))
}

func unZstd(b []byte, n int) ([]byte, error) {
	r, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(b, nil)
}

// again copies n bytes from distance back, one after the other.
func again(out []byte, distance, n int) ([]byte, error) {
	if distance < 1 || distance > len(out) {
		return out, fmt.Errorf("%d bytes back of %d", distance, len(out))
	}
	for range n {
		out = append(out, out[len(out)-distance])
	}
	return out, nil
}

func unLZJB(b []byte, n int) (out []byte, err error) {
	for i, mask, flags := 0, 256, byte(0); len(out) < n; mask <<= 1 {
		if mask == 256 {
			mask, flags = 1, b[i]
			i++
		}
		if flags&byte(mask) == 0 {
			out = append(out, b[i])
			i++
			continue
		}
		if out, err = again(out, int(b[i]&3)<<8|int(b[i+1]), int(b[i]>>2)+3); err != nil {
			return out, err
		}
		i += 2
	}
	return out, nil
}

func unZLE(b []byte, _ int) (out []byte, err error) {
	for i := 0; i < len(b); {
		n := int(b[i])
		i++
		if n >= 64 {
			out = append(out, make([]byte, n-63)...)
			continue
		}
		out = append(out, b[i:i+n+1]...)
		i += n + 1
	}
	return out, nil
}

func unLZ4(b []byte, _ int) (out []byte, err error) {
	i := 0
	length := func(n int) int {
		if n < 15 {
			return n
		}
		for {
			c := b[i]
			i++
			n += int(c)
			if c != 255 {
				return n
			}
		}
	}
	for i < len(b) {
		token := b[i]
		i++
		n := length(int(token >> 4))
		out = append(out, b[i:i+n]...)
		if i += n; i == len(b) {
			return out, nil
		}
		back := int(binary.LittleEndian.Uint16(b[i:]))
		i += 2
		if out, err = again(out, back, length(int(token&15))+4); err != nil {
			return out, err
		}
	}
	return out, nil
}

// unLZO reads LZO1X as lzo.rst describes it.
func unLZO(b []byte, _ int) (out []byte, err error) {
	i, state := 0, 0
	take := func(n int) {
		out = append(out, b[i:i+n]...)
		i += n
	}
	length := func(n, most int) int {
		if n != 0 {
			return n
		}
		n = most
		for b[i] == 0 {
			n += 255
			i++
		}
		i++
		return n + int(b[i-1])
	}
	if b[0] > 17 {
		i = 1
		n := int(b[0]) - 17
		take(n)
		state = min(n, 4)
	}
	for {
		op := int(b[i])
		i++
		var n, back, low int
		switch {
		case op >= 64:
			n, back, low = op>>5+1, op>>2&7+int(b[i])<<3+1, op&3
			i++
		case op >= 32:
			n = length(op&31, 31) + 2
			w := int(b[i]) | int(b[i+1])<<8
			back, low = w>>2+1, w&3
			i += 2
		case op >= 16:
			n = length(op&7, 7) + 2
			w := int(b[i]) | int(b[i+1])<<8
			back, low = op&8<<11+w>>2+16384, w&3
			i += 2
			if back == 16384 {
				return out, nil
			}
		case state == 0:
			n = length(op, 15) + 3
			take(n)
			state = 4
			continue
		default:
			return out, fmt.Errorf("instruction %d after %d literals", op, state)
		}
		if out, err = again(out, back, n); err != nil {
			return out, err
		}
		take(low)
		state = low
	}
}

func TestNoSuchLevel(t *testing.T) {
	if _, ok := NewZstd(19); ok {
		t.Error("there is a level 19")
	}
}

// The sizes are those of btrfs within 1 %: testdata has what Linux 6.18 stored of
// the same inputs under compress-force, extent by extent – the name of the input,
// the level, where in it the extent begins, and its bytes. What btrfs gave up is
// plain.
func TestSizesAreThoseOfBtrfs(t *testing.T) {
	text, err := os.ReadFile("testdata/btrfs-6.18.txt")
	if err != nil {
		t.Fatal(err)
	}
	in, n := inputs(), 0
	in["noise first"] = append(append([]byte{}, in["noise"][:20_000]...), in["text"][:100_000]...)
	for line := range strings.Lines(string(text)) {
		f := append(strings.Split(strings.TrimSpace(line), "|"), "")
		level, err := strconv.Atoi(f[1])
		at, err2 := strconv.Atoi(f[2])
		if err != nil || err2 != nil || at >= len(in[f[0]]) {
			t.Fatal(line)
		}
		n++
		if spared(level) {
			continue
		}
		src := in[f[0]][at:]
		src = src[:min(len(src), 1<<17)]
		out, ok := NewPagedDeflate(level).Encode(nil, src, len(src)-1)
		if f[3] == "plain" {
			if ok && len(out)+page < len(src) {
				t.Errorf("%s at level %d: %d bytes of %d, and btrfs gave up", f[0], level, len(out), len(src))
			}
			continue
		}
		want, err := strconv.Atoi(f[3])
		if err != nil || !ok {
			t.Errorf("%s from %d at level %d: given up, and btrfs stored %s bytes", f[0], at, level, f[3])
		}
		nearSize(t, fmt.Sprintf("%s from %d at level %d", f[0], at, level), len(out), want)
	}
	if n < 100 {
		t.Errorf("%d extents", n)
	}
}
