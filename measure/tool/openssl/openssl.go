// Package openssl is the tool `openssl speed`: a hash or a cipher over one
// block size.
//
// What to distrust in it:
//
//   - Without -elapsed it divides by its CPU time: on a busy machine, or one
//     that is throttled, that is a rate which nobody ever had. -elapsed is always
//     given.
//   - -mr prints lines for machines. Their index differs between versions, and
//     the names do too (id-aes256-GCM, AES-256-GCM): names are matched, without
//     case and punctuation.
//   - With -multi the sizes come only in what the children said ("Got: +H:…"),
//     and the sum in a line of its own, which 1.1.1 calls "evp" whatever it is.
//   - What works is the library: its build is a fact of the fingerprint.
package openssl

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
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
		Summary: "openssl speed as the platform ships it: a hash or a cipher over blocks of one size",
		Packages: map[string][]string{
			"debian": {"openssl"}, "alpine": {"openssl"}, "freebsd": {"openssl"}, "openbsd": {"openssl%3.0"},
			"netbsd": {"openssl"}, "dragonfly": {"openssl"}, "smartos": {"openssl"},
		},
		Metrics: []sample.Metric{
			{Name: "throughput", Unit: "B/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio, Doc: "bytes a second of elapsed time, all processes together"},
		},
		Params: []param.Spec{
			{Name: "algorithm", Kind: param.Text, Default: "sha256", Doc: "digest or cipher as openssl names it: sha256, aes-256-gcm"},
			{Name: "block", Kind: param.Size, Default: "16KiB", Min: 1, Max: 1 << 30, Doc: "size of a block"},
			{Name: "multi", Kind: param.Int, Default: "1", Min: 1, Max: 1024, Doc: "processes at a time"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test, whole seconds"},
		},
		State: "carried", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return seconds(p) + 200*time.Millisecond },
		Parser: 1,
		Source: []string{"openssl-speed(1)"},
	}
}

// seconds is the length of the test: openssl takes whole seconds.
func seconds(p param.Values) time.Duration {
	return time.Duration(math.Ceil(p.Duration("time").Seconds())) * time.Second
}

var algorithm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9/_-]*$`)

func (openssl) Command(p param.Values, _ tool.Place) (tool.Command, error) {
	switch {
	case !algorithm.MatchString(p.Text("algorithm")):
		return tool.Command{}, fault.New(fault.Invalid, "algorithm: %q is no name of one; write sha256 or aes-256-gcm", p.Text("algorithm"))
	case p.Duration("time") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time: %s is no length of a test; write 1s", p.Text("time"))
	}
	argv := []string{"openssl", "speed", "-elapsed", "-mr", "-seconds", strconv.Itoa(int(seconds(p) / time.Second)),
		"-bytes", strconv.FormatInt(p.Bytes("block"), 10)}
	if p.Int("multi") > 1 {
		argv = append(argv, "-multi", p.Text("multi"))
	}
	return tool.Command{Argv: append(argv, "-evp", p.Text("algorithm"))}, nil
}

var version = regexp.MustCompile(`(?m)^OpenSSL (\d+\.\d+\.\d+\S*)`)

// Version reads `openssl version -a`, whose lines say how the library was
// built and which instructions of the processor it uses.
func (openssl) Version(out []byte) (map[string]string, error) {
	m := version.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("%.60q is no version of OpenSSL (LibreSSL's speed has no -mr)", out)
	}
	facts := map[string]string{"version": string(m[1])}
	for fact, label := range map[string]string{"built": "built on:", "platform": "platform:", "compiler": "compiler:", "cpu": "CPUINFO:"} {
		if v, err := tool.Text(out).Line(label); err == nil && v != "" {
			facts[fact] = v
		}
	}
	return facts, nil
}

func (o openssl) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	if !sized(out.Stdout, p.Bytes("block")) {
		return r, fmt.Errorf("no line +H says that blocks had %d bytes alone", p.Bytes("block"))
	}
	rate, err := rated(out.Stdout, p.Text("algorithm"))
	if err != nil {
		return r, err
	}
	if !(rate > 0) {
		return r, fault.New(fault.Subject, "openssl calls its speed %g B/s", rate)
	}
	blocks, total := counted(out.Stderr, p)
	// Rounded to hundredths of a second, so it agrees within a few percent.
	// CPU time instead of elapsed time does not, on a machine with other work.
	if blocks > 0 && math.Abs(total/rate-1) > 0.05 {
		return r, fmt.Errorf("its lines +R make %g B/s and its line +F says %g", total, rate)
	}
	r.Work = blocks * float64(p.Bytes("block"))
	r.Add(o.Doc(), "throughput", rate)
	return r, nil
}

// sized reports whether the sizes that were used are size alone. With -multi
// each child says it, after "Got: ".
func sized(out []byte, size int64) bool {
	found := false
	for line := range bytes.Lines(out) {
		text := strings.TrimPrefix(strings.TrimSpace(string(line)), "Got: ")
		sizes, ok := strings.CutPrefix(text, "+H:")
		if !ok {
			continue
		}
		sizes, _, _ = strings.Cut(sizes, " from ")
		if sizes != strconv.FormatInt(size, 10) {
			return false
		}
		found = true
	}
	return found
}

// rated reads the line +F:index:name:bytes per second of an algorithm.
func rated(out []byte, algorithm string) (rate float64, err error) {
	found := false
	for line := range bytes.Lines(out) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if fields[0] != "+F" {
			continue // of a child, or a note
		}
		if len(fields) != 4 || found {
			return 0, fmt.Errorf("%.60q is not the one line of one size", line)
		}
		// OpenSSL 1.1.1 calls the sum of many processes "evp".
		if plain(fields[2]) != plain(algorithm) && !(fields[2] == "evp" && children(out, algorithm)) {
			return 0, fmt.Errorf("is of %.40q, and %s was asked for", fields[2], algorithm)
		}
		if rate, err = tool.Decimal(fields[3]); err != nil {
			return 0, err
		}
		found = true
	}
	if !found {
		return 0, fmt.Errorf("there is no line +F")
	}
	return rate, nil
}

// children reports whether what the children of -multi said ("Got: +F:…") is
// of the algorithm, all of it.
func children(out []byte, algorithm string) bool {
	found := false
	for line := range bytes.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "Got: +F:")
		if !ok {
			continue
		}
		fields := strings.Split(rest, ":")
		if len(fields) < 2 || plain(fields[1]) != plain(algorithm) {
			return false
		}
		found = true
	}
	return found
}

// plain is a name without what differs between versions.
func plain(name string) string {
	name = strings.ToLower(strings.TrimPrefix(name, "id-"))
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return r
	}, name)
}

// counted adds up the lines +R:blocks:name:seconds, one a process, in which
// some versions leave the name out: blocks, and the bytes a second that they
// make. Both are 0 where there are not as many lines as processes.
func counted(out []byte, p param.Values) (blocks, rate float64) {
	lines := int64(0)
	for line := range bytes.Lines(out) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if fields[0] != "+R" || len(fields) < 3 {
			continue
		}
		n, err1 := tool.Decimal(fields[1])
		took, err2 := tool.Decimal(fields[len(fields)-1])
		if err1 != nil || err2 != nil || !(n > 0) || !(took > 0) {
			return 0, 0
		}
		blocks += n
		rate += n * float64(p.Bytes("block")) / took
		lines++
	}
	if lines != p.Int("multi") {
		return 0, 0
	}
	return blocks, rate
}
