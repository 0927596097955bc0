// Package openssl is the tool `openssl speed`: a hash or a cipher over one
// block size. Pitfalls:
//
//   - Without -elapsed it divides by its CPU time. On a busy or throttled machine
//     that rate never occurred. -elapsed is always set, and Parse compares the
//     seconds with those of the wall clock.
//   - -mr prints machine-readable lines. Their index differs between versions,
//     and so do the names (id-aes256-GCM, AES-256-GCM). Parse compares names
//     without case and punctuation.
//   - With -multi the sizes are only in the children's lines ("Got: +H:…"), and
//     the sum is in a line of its own, which 1.1.1 always calls "evp".
//   - The library does the work: its build is a fact of the fingerprint.
package openssl

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
)

// New returns the tool.
func New() tool.Tool { return openssl{} }

type openssl struct{}

func (openssl) Doc() tool.Doc {
	return tool.Doc{
		Name: "openssl", Program: "openssl", VersionArgs: []string{"version", "-a"},
		Tried:   []string{"1.1.1", "3.0", "3.5"},
		Summary: "openssl speed as the platform ships it: a hash or a cipher over blocks of one size",
		Packages: map[string][]string{
			"debian": {"openssl"}, "alpine": {"openssl"}, "freebsd": {"openssl"}, "openbsd": {"openssl%3.0"},
			"netbsd": {"openssl"}, "dragonfly": {"openssl"}, "smartos": {"openssl"},
		},
		Metrics: []sample.Metric{
			sample.Throughput("B/s", "bytes per second of elapsed time, all processes together"),
		},
		Params: []param.Spec{
			{Name: "algorithm", Kind: param.Text, Default: "sha256",
				Doc: "digest or cipher by its openssl name, such as sha256 or aes-256-gcm"},
			{Name: "block", Kind: param.Size, Default: "16KiB", Min: 1, Max: 1 << 30, Doc: "size of a block"},
			{Name: "multi", Kind: param.Int, Default: "1", Min: 1, Max: 1024, Doc: "number of processes"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test in whole seconds"},
		},
		State: "carried", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 200*time.Millisecond },
		Parser: 3,
		Source: []string{"openssl-speed(1)"},
	}
}

var algorithm = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9/_-]*$`)

func (openssl) Command(p param.Values, _ tool.Place) (tool.Command, error) {
	switch {
	case !algorithm.MatchString(p.Text("algorithm")):
		return tool.Command{}, fault.New(fault.Invalid,
			"algorithm: invalid name %q; write for example sha256 or aes-256-gcm", p.Text("algorithm"))
	case p.Duration("time") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time must be positive (got %s)", p.Text("time"))
	}
	argv := []string{"openssl", "speed", "-elapsed", "-mr", "-seconds", tool.Seconds(p, "time"),
		"-bytes", strconv.FormatInt(p.Bytes("block"), 10)}
	if p.Int("multi") > 1 {
		argv = append(argv, "-multi", p.Text("multi"))
	}
	return tool.Command{Argv: append(argv, "-evp", p.Text("algorithm"))}, nil
}

var version = tool.VersionBy(`(?m)^OpenSSL (\d+\.\d+\.\d+\S*)`)

// Version reads the output of `openssl version -a`, which says how the library
// was built and which CPU instructions it uses.
func (openssl) Version(out []byte) (map[string]string, error) {
	facts, err := version.Version(out)
	if err != nil {
		return nil, fmt.Errorf("%w (LibreSSL is not supported: its command speed has no option -mr)", err)
	}
	for fact, label := range map[string]string{"built": "built on:", "platform": "platform:", "compiler": "compiler:",
		"cpu": "CPUINFO:"} {
		if v, err := labeled.Text(out).Line(label); err == nil && v != "" {
			facts[fact] = v
		}
	}
	return facts, nil
}

func (o openssl) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	if !hasOnlySize(out.Stdout, p.Bytes("block")) {
		return r, fault.New(fault.Subject, "no line +H confirms a block size of %d bytes", p.Bytes("block"))
	}
	rate, err := parseRate(out.Stdout, p.Text("algorithm"))
	if err != nil {
		return r, err
	}
	if !(rate > 0) {
		return r, fault.New(fault.Subject, "openssl reported a speed of %g B/s", rate)
	}
	if n := p.Int("multi"); n > 1 {
		if got := bytes.Count(out.Stdout, []byte("Got: +F:")); int64(got) != n {
			return r, tool.Differs("multi", strconv.Itoa(got), strconv.FormatInt(n, 10))
		}
	}
	blocks, total, err := counted(&r, out, p)
	if err != nil {
		return r, err
	}
	// The times have two decimals, so both agree within a few percent.
	if math.Abs(total/rate-1) > 0.05 {
		return r, fault.New(fault.Subject, "the lines +R give %g B/s, but the line +F gives %g B/s", total, rate)
	}
	r.Work = blocks * float64(p.Bytes("block"))
	r.Add(o.Doc(), "throughput", rate)
	return r, nil
}

// hasOnlySize reports whether size was the only block size. With -multi each child
// reports it, after "Got: ".
func hasOnlySize(out []byte, size int64) bool {
	all := slices.Concat(linesAfter(out, "Got: +H:"), linesAfter(out, "+H:"))
	return len(all) > 0 && !slices.ContainsFunc(all, func(text string) bool {
		sizes, _, _ := strings.Cut(text, " from ")
		return sizes != strconv.FormatInt(size, 10)
	})
}

// linesAfter returns the rest of the lines that begin with label.
func linesAfter(out []byte, label string) (all []string) {
	for line := range bytes.Lines(out) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), label); ok {
			all = append(all, rest)
		}
	}
	return all
}

// parseRate reads the line +F:index:name:bytes per second of an algorithm.
func parseRate(out []byte, algorithm string) (rate float64, err error) {
	found := false
	for line := range bytes.Lines(out) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if fields[0] != "+F" {
			continue // a child's line, or a note
		}
		if len(fields) != 4 || found {
			return 0, fmt.Errorf("unexpected line %.60q", line)
		}
		// OpenSSL 1.1.1 calls the sum of many processes "evp".
		if plainName(fields[2]) != plainName(algorithm) && !(fields[2] == "evp" && children(out, algorithm)) {
			return 0, fault.New(fault.Subject, "the result is for the algorithm %.40q instead of %s", fields[2], algorithm)
		}
		if rate, err = labeled.Decimal(fields[3]); err != nil {
			return 0, err
		}
		found = true
	}
	if !found {
		return 0, fmt.Errorf("no line +F")
	}
	return rate, nil
}

// children reports whether all results of the children of -multi ("Got: +F:…")
// are for the algorithm.
func children(out []byte, algorithm string) bool {
	all := linesAfter(out, "Got: +F:")
	return len(all) > 0 && !slices.ContainsFunc(all, func(text string) bool {
		fields := strings.Split(text, ":")
		return len(fields) < 2 || plainName(fields[1]) != plainName(algorithm)
	})
}

// plainName is a name without the parts that differ between versions.
func plainName(name string) string {
	name = strings.ToLower(strings.TrimPrefix(name, "id-"))
	return strings.NewReplacer("-", "", "_", "").Replace(name)
}

// counted adds up the lines +R:blocks:name:seconds, one per process (some
// versions omit the name). It returns the number of blocks and the bytes per
// second, and notes in r if the seconds of a line are not those that the test lasted: both
// +R and +F use them, so with CPU time in them both give a rate that never occurred.
func counted(r *tool.Result, out tool.Output, p param.Values) (blocks, rate float64, err error) {
	lines := int64(0)
	for line := range bytes.Lines(out.Stderr) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if fields[0] != "+R" || len(fields) < 3 {
			continue
		}
		n, err1 := labeled.Decimal(fields[1])
		took, err2 := labeled.Decimal(fields[len(fields)-1])
		if err1 != nil || err2 != nil || !(n > 0) || !(took > 0) {
			return 0, 0, fmt.Errorf("unexpected line %.60q", line)
		}
		if err := r.Lasted(took, tool.WholeSeconds(p, "time"), out.Elapsed); err != nil {
			return 0, 0, err
		}
		blocks += n
		rate += n * float64(p.Bytes("block")) / took
		lines++
	}
	if lines != p.Int("multi") {
		return 0, 0, fault.New(fault.Subject, "openssl printed %d lines +R instead of %d, one for each process", lines,
			p.Int("multi"))
	}
	return blocks, rate, nil
}
