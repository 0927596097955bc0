// Package unit reads and writes quantities: sizes in bytes, rates and
// durations, the way administrators write them.
package unit

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bytes is a size in bytes. It is written with binary prefixes: 512MiB.
type Bytes int64

// The binary prefixes, in bytes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// The prefix of a size has any case. A small b is refused: it stands for bits.
var sizes = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1}, {"", 1},
}

// ParseBytes reads a size: 4096, 4KiB, 4k or 512M (binary, as in qemu and fio),
// 1.5GB (decimal). It refuses negative and fractional numbers of bytes.
func ParseBytes(s string) (Bytes, error) {
	t := strings.TrimSpace(s)
	if i := strings.IndexAny(t, "kmgt"); i >= 0 {
		t = t[:i] + strings.ToUpper(t[i:i+1]) + t[i+1:]
	}
	for _, u := range sizes {
		num, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		f, err := parseNumber(num)
		if err != nil {
			continue
		}
		b := f * u.bytes
		if b != math.Trunc(b) || b > math.MaxInt64/2 {
			return 0, fmt.Errorf("%q is not a whole number of bytes below 4 EiB", s)
		}
		return Bytes(b), nil
	}
	return 0, fmt.Errorf("%q is not a size; write 4KiB, 512MiB or 1.5GB", s)
}

// String writes b with the largest binary prefix that divides it.
func (b Bytes) String() string {
	for _, u := range []struct {
		n Bytes
		s string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if b != 0 && b%u.n == 0 {
			return strconv.FormatInt(int64(b/u.n), 10) + u.s
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// ParseRate reads a rate per second: 5000/s, 20k/s.
func ParseRate(s string) (float64, error) {
	num, ok := strings.CutSuffix(strings.TrimSpace(s), "/s")
	if !ok {
		return 0, fmt.Errorf("%q is not a rate; write 5000/s or 20k/s", s)
	}
	scale := 1.0
	if n, ok := strings.CutSuffix(num, "k"); ok {
		num, scale = n, 1e3
	} else if n, ok := strings.CutSuffix(num, "M"); ok {
		num, scale = n, 1e6
	}
	f, err := parseNumber(num)
	if err != nil || f == 0 {
		return 0, fmt.Errorf("%q is not a rate; write 5000/s or 20k/s", s)
	}
	return f * scale, nil
}

// tooLong matches a duration that time.ParseDuration refuses only for its length.
// It is compiled when it is needed: each start of an agent would take longer.
var tooLong = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)
})

// ErrTooLong is why ParseDuration refuses what is a duration, and no time.Duration.
var ErrTooLong = errors.New("is longer than 290 years")

// ParseDuration reads a positive duration: 200ms, 5s, 30m, 1h30m.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	switch {
	case err != nil && tooLong().MatchString(strings.TrimSpace(s)):
		return 0, fmt.Errorf("%q %w; write a shorter duration like 30m", s, ErrTooLong)
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write 200ms, 5s, 30m or 1h30m", s)
	case d <= 0:
		return 0, fmt.Errorf("%q is not a positive duration; write 200ms, 5s, 30m or 1h30m", s)
	}
	return d, nil
}

// ParseShare reads a share: 5% or 0.05.
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a share; write 2%% or 0.02", s)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// parseNumber reads a plain non-negative decimal number: no exponent, no
// sign, no hexadecimal.
func parseNumber(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return strconv.ParseFloat(s, 64)
}

// Format writes v of the given unit for people, with three or four significant
// digits and a prefix if the unit takes one: "1.234 GB/s", "83.1 µs". Units
// without prefixes (%, ratio) keep the number as it is.
func Format(v float64, u string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if u == Instruction {
		return instructions(v)
	}
	scale, name := Prefix(v, u)
	return strings.TrimSpace(digits(v/scale) + " " + name)
}

// Instruction is the unit of what a processor executes. Counts of it are exact, so Format
// writes all their digits: "1,421,153,544 instructions".
const Instruction = "instruction"

func instructions(v float64) string {
	text := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	if v < 0 {
		text = "-" + text
	}
	if text == "1" {
		return text + " " + Instruction
	}
	return text + " " + Instruction + "s"
}

// FormatBoth writes two values that are read next to each other: as Format, but with
// the prefix of the smaller one if the larger has at most four digits with it.
func FormatBoth(a, b float64, u string) (string, string) {
	if u == Instruction {
		return Format(a, u), Format(b, u)
	}
	least, most := min(math.Abs(a), math.Abs(b)), max(math.Abs(a), math.Abs(b))
	scale, name := Prefix(least, u)
	if !(least > 0 && most/scale < 10000) {
		return Format(a, u), Format(b, u)
	}
	text := func(v float64) string { return strings.TrimSpace(digits(v/scale) + " " + name) }
	return text(a), text(b)
}

// Prefix returns what Format divides v by, and the unit with its prefix:
// 1e6 and "MB/s" for 2.5e6 B/s. An axis uses the prefix of its largest value for
// all of its labels.
func Prefix(v float64, u string) (divisor float64, name string) {
	ps := []prefix{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}
	switch u {
	case "s", "s/op", "s/request":
		ps = []prefix{{1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}}
	case "", "%", "ratio", "op", "1":
		return 1, strings.Trim(u, "1")
	}
	for i, p := range ps {
		if math.Abs(v) >= p.scale || i == len(ps)-1 {
			return p.scale, p.name + u
		}
	}
	return 1, u
}

type prefix struct {
	scale float64
	name  string
}

func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0"
	case a >= 1e15: // more digits than anybody can read
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Signed writes v with its sign, for prose: "+1.5", "−97". decimals is the number
// of digits after the point; if it is negative, v has three significant digits.
func Signed(v float64, decimals int) string {
	s := ""
	if decimals < 0 {
		s = fmt.Sprintf("%+.3g", v)
	} else {
		s = fmt.Sprintf("%+.*f", decimals, v)
	}
	return strings.ReplaceAll(s, "-", "−")
}

// Count writes a number of things: "1 block", "3 blocks", "2 entries".
func Count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if strings.HasSuffix(word, "y") {
		word = strings.TrimSuffix(word, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, word)
}
