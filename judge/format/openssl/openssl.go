// Package openssl reads what openssl speed writes: the table, and the lines of -mr.
package openssl

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type openssl struct{}

// New returns the format.
func New() format.Format { return openssl{} }

func (openssl) Doc() format.Doc {
	return format.Doc{
		Name:    "openssl",
		Program: "openssl speed -elapsed > FILE, also with -mr and -multi",
		Labels: []format.LabelDoc{
			{Name: "algorithm", Doc: "algorithm, with the length of a key"},
			{Name: "size", Doc: "size of a block in bytes"},
		},
		Order: "openssl speed measures one algorithm after another, each with one size after another, once. The output " +
			"does not say how long a measurement took. Use -elapsed: otherwise openssl speed counts CPU time.",
		InOrder: true,
		Source:  []string{"openssl-speed(1)"},
	}
}

var (
	machine = lazy.Compile(`(?m)^(?:Got: )?\+F(?:[2-9]|10)?:\d+:`)
	symbols = lazy.Compile(`(?m)^type +\d+ bytes`)
	pairs   = lazy.Compile(`(?m)^ +[a-z]+ .*[a-z.]+/s *\r?$`)
	about   = lazy.Compile(`(?m)^(?:CPUINFO: OPENSSL_|The 'numbers' are in 1000s of bytes per second|` +
		`options: ?bn\(| +sign +verify +sign/s +verify/s| +op +op/s)`)
	sizes = lazy.Compile(`(\d+) bytes`)
	// openssl prints rates up to 10 kB/s in B/s, without the k.
	symRow   = lazy.Compile(`^(\S.*?)((?:\s+\d+\.\d+k?)*\s+\d+\.\d+k(?:\s+\d+\.\d+k?)*)\s*$`)
	oddRate  = lazy.Compile(`^(?:[-+]?[0-9.,]+k?|(?i:-?nank?|-?infk?))$`)
	oddTime  = lazy.Compile(`^(?:.*[0-9].*|(?i:-?nan|-?inf))s$`)
	versions = lazy.Compile(`^(?:(?:version: |OpenSSL )(\d\S*)|(LibreSSL \d\S*))`)
)

func (openssl) Recognizes(head []byte) bool {
	head = format.TrimMark(head)
	return machine.Match(head) || symbols.Match(head) || about.Match(head)
}

var throughput = sample.Throughput("B/s", "bytes per second, all processes together")

func (openssl) Read(name string, data []byte) (format.File, error) {
	data = format.TrimMark(data)
	out := format.File{Program: "openssl speed"}
	r := reader{out: &out, p: format.NewProblems(name)}
	for line := range bytes.Lines(data) {
		r.line++
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case versions.MatchString(text):
			m := versions.FindStringSubmatch(text)
			r.version = cmp.Or(m[1], m[2])
			out.Program = "openssl speed " + r.version
			r.cpu = ""
		case strings.HasPrefix(text, "CPUINFO: "):
			r.cpu = strings.TrimPrefix(text, "CPUINFO: ")
		case strings.HasPrefix(text, "+H:"), strings.HasPrefix(text, "Got: +H:"):
			rest, _, _ := strings.Cut(text[strings.Index(text, "H:")+2:], " from ")
			r.sizes = strings.Split(rest, ":")
		case strings.HasPrefix(text, "Got: +F:"):
			if f := strings.Split(text, ":"); len(f) > 3 {
				r.child = f[3]
			}
		case strings.HasPrefix(text, "+F"):
			r.machine(strings.Split(strings.TrimSpace(text), ":"))
		case symbols.MatchString(text):
			r.sizes, r.operations = nil, nil
			for _, m := range sizes.FindAllStringSubmatch(text, 64) {
				r.sizes = append(r.sizes, m[1])
			}
		case pairs.MatchString(text):
			r.operations = operations(strings.Fields(text))
		case symRow.MatchString(text):
			m := symRow.FindStringSubmatch(text)
			r.addRates(m[1], strings.Fields(m[2]))
		case len(r.operations) == 0 && r.isOddRow(strings.Fields(text)):
			words := strings.Fields(text)
			n := len(words) - len(r.sizes)
			r.addRates(strings.Join(words[:n], " "), words[n:])
		case len(r.operations) > 0:
			r.addTableRow(strings.Fields(text))
		}
	}
	if len(out.Records) == 0 && !r.p.AnyLeftOut() {
		r.p.Add(1, "the file has no results of openssl speed; its table is at the end of the output")
	}
	r.p.Distinguish(&out, "algorithm")
	return r.p.Finish(out)
}

// reader reads one file.
type reader struct {
	out        *format.File
	p          *format.Problems
	version    string // of the report
	cpu        string // of the report: the features of the processor that openssl uses
	line       int
	sizes      []string // of the columns, in bytes
	operations []string // of the columns
	child      string   // the last algorithm that a process of -multi named
}

// emptyRecord returns an empty record.
func (r *reader) emptyRecord(algorithm, size string) format.Record {
	rec := format.Record{Line: r.line, Turn: len(r.out.Records), Facts: map[string]string{},
		Labels: []format.Label{{Name: "algorithm", Value: algorithm}}}
	if size != "" {
		rec.Labels = append(rec.Labels, format.Label{Name: "size", Value: size, Shown: size + " bytes"})
	}
	if r.version != "" {
		rec.Facts["version"] = r.version
	}
	if r.cpu != "" {
		rec.Facts["cpuinfo"] = r.cpu
	}
	return rec
}

// isOddRow reports whether a line has as many rates as the table has columns, although none
// is written as usual: 0.00 of an algorithm that failed, or a decimal comma.
func (r *reader) isOddRow(words []string) bool {
	n := len(r.sizes)
	return n > 0 && len(words) > n && !slices.ContainsFunc(words[len(words)-n:], func(w string) bool {
		return !oddRate.MatchString(w)
	})
}

// addRates keeps the rates of an algorithm, one for each size of a block.
func (r *reader) addRates(algorithm string, words []string) {
	if len(words) != len(r.sizes) {
		r.p.LeaveOut(r.line, "%q has %d rates for %d sizes of blocks; the line with the sizes may be missing", algorithm,
			len(words), len(r.sizes))
		return
	}
	for i, word := range words {
		v, err := labeled.Quantity(word, map[string]float64{"": 1, "k": 1e3})
		if err != nil || !(v > 0) {
			r.p.LeaveOut(r.line, "%q with %s bytes has no rate (%.20q)", algorithm, r.sizes[i], word)
			continue
		}
		rec := r.emptyRecord(algorithm, r.sizes[i])
		if rec.AddSingle(throughput, v, true); len(rec.Series) > 0 {
			r.out.Records = append(r.out.Records, rec)
		}
	}
}

// operations are the columns of a table such as "sign verify sign/s verify/s": the
// first half has times, the second half rates.
func operations(words []string) (out []string) {
	for _, w := range words[len(words)/2:] {
		name, ok := strings.CutSuffix(w, "/s")
		if !ok || name == "" || len(words)%2 == 1 {
			return nil
		}
		out = append(out, name)
	}
	return out
}

// addTableRow keeps a row of such a table, if the line is one.
func (r *reader) addTableRow(words []string) {
	if len(words) > 1 && words[1] == "bit" {
		words[1] = "bits" // of version 1.0.2
	}
	n := len(r.operations)
	if len(words) <= 2*n {
		return
	}
	name := strings.Join(words[:len(words)-2*n], " ")
	for _, w := range words[len(words)-2*n : len(words)-n] {
		if _, err := labeled.Quantity(w, map[string]float64{"s": 1}); err == nil {
			continue
		}
		if oddTime.MatchString(w) {
			r.p.LeaveOut(r.line, "%q has the time %.20q, which is not a number of seconds", name, w)
		}
		return // text
	}
	r.addCounts(name, r.operations, words[len(words)-n:], words[len(words)-2*n:])
}

// lessRounded returns the operations per second by the less rounded one of a time and of a rate that a row has, and
// warns if they contradict each other.
func (r *reader) lessRounded(what, time, rate string) (float64, error) {
	t, terr := labeled.Quantity(time, map[string]float64{"s": 1})
	v, err := labeled.Decimal(rate)
	if err != nil || terr != nil {
		return v, err
	}
	const slack = 1.02 // of a rounding
	if share := labeled.Rounding(time); share < labeled.Rounding(rate) {
		r.p.Compare(r.line, "the rate of "+what, v, 1/t, slack*(labeled.HalfDigit(rate)+share/t), "the time of an operation",
			"")
		return 1 / t, nil
	}
	if v > 0 {
		r.p.Compare(r.line, "the time of "+what, t, 1/v, slack*(labeled.HalfDigit(time)+labeled.Rounding(rate)/v),
			"its operations per second", "")
	}
	return v, nil
}

// addCounts keeps numbers of operations per second. times are those of an operation, if the file has them.
func (r *reader) addCounts(algorithm string, operations, words, times []string) {
	rec := r.emptyRecord(algorithm, "")
	for i, word := range words {
		v, err := labeled.Decimal(word)
		if len(times) > 0 {
			v, err = r.lessRounded(algorithm+" "+operations[i], times[i], word)
		}
		switch {
		case err != nil || !(v > 0):
			r.p.LeaveOut(r.line, "%q has no rate of %s (%.20q)", algorithm, operations[i], word)
		default:
			rec.AddSingle(sample.HigherRatio(operations[i], "op/s", "operations per second"), v, true)
		}
	}
	if len(rec.Series) > 0 {
		r.out.Records = append(r.out.Records, rec)
	}
}

// kinds are the lines of -mr for operations with keys: +F2:INDEX:BITS:SIGN:VERIFY. Before
// the rates are as many parts as before says: index, bits, name.
var kinds = map[string]struct {
	name       string
	before     int
	operations []string
}{
	"+F2":  {"rsa", 2, []string{"sign", "verify"}},
	"+F3":  {"dsa", 2, []string{"sign", "verify"}},
	"+F4":  {"ecdsa", 2, []string{"sign", "verify"}},
	"+F5":  {"ecdh", 2, []string{"op"}}, // and its time
	"+F6":  {"EdDSA", 3, []string{"sign", "verify"}},
	"+F7":  {"SM2", 3, []string{"sign", "verify"}},
	"+F8":  {"ffdh", 2, []string{"op"}}, // and its time
	"+F9":  {"kem", 1, []string{"keygen", "encaps", "decaps"}},
	"+F10": {"signature", 1, []string{"keygen", "sign", "verify"}},
}

// machine keeps a line of -mr.
func (r *reader) machine(f []string) {
	if f[0] == "+F" {
		if len(f) < 4 || f[2] == "" {
			r.p.LeaveOut(r.line, "the line +F needs an index, a name and a rate")
			return
		}
		if f[2] == "evp" { // OpenSSL 1.1.1 calls the sum of many processes so
			f[2] = cmp.Or(r.child, f[2])
		}
		r.addRates(f[2], f[3:])
		return
	}
	k, known := kinds[f[0]]
	first := 1 + k.before
	switch {
	case !known:
		r.p.LeaveOut(r.line, "%.10q is a line of an algorithm that bakeoff does not know; use the table, without -mr", f[0])
		return
	case len(f) < first+len(k.operations):
		r.p.LeaveOut(r.line, "the line %s needs at least %d parts", f[0], first+len(k.operations))
		return
	}
	// Curves of one length differ by their index only.
	name := fmt.Sprintf("%s (%s)", k.name, f[1])
	switch k.before {
	case 2:
		name = fmt.Sprintf("%s %s bits (%s)", k.name, f[2], f[1])
	case 3:
		name = fmt.Sprintf("%s %s bits (%s)", k.name, f[2], f[3])
	}
	rates := f[first : first+len(k.operations)]
	for _, text := range rates {
		if v, err := labeled.Decimal(text); err == nil && v < 1 {
			r.p.LeaveOut(r.line, "%s: %s per second is too slow for a rate; OpenSSL 1.0 wrote seconds here", name, text)
			return
		}
	}
	r.addCounts(name, k.operations, rates, nil)
}
