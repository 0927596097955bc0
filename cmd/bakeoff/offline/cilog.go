package offline

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/judge/format"
)

// logTime is a time as servers write it before each line.
const logTime = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?`

// logPrefixes are what CI servers and other programs write before each line of a log. The first group is the name of
// a job or service.
var logPrefixes = []*lazy.Regexp{
	// GitHub Actions and docker logs -t; gh run view has the job and the step in front; GitLab adds the stream.
	lazy.Compile(`^(?:([^\t]+)\t[^\t]+\t)?` + logTime + `(?: [0-9a-f]{2}[OE]\b\+?)?(?: |$)`),
	lazy.Compile(`^\[(?:` + logTime + `|\d\d:\d\d:\d\d(?:\.\d+)?)\](?: |$)`), // Jenkins, Buildkite
	lazy.Compile(`^\d\d:\d\d:\d\d(?:\.\d+)?(?:  ?|$)`),                       // Jenkins
	lazy.Compile(`^(?:[A-Z][a-z]{2}) [ \d]\d \d\d:\d\d:\d\d(?: |$)`),         // ts
	lazy.Compile(`^([\w.-]+) +\|(?: |$)`),                                    // docker compose
	lazy.Compile(`^(#\d+) \d+\.\d+(?: |$)`),                                  // docker build
}

// withoutLogPrefix returns the text of a log without what a CI server wrote before each line. The lines of several
// jobs are an error: their results would count as those of one.
func withoutLogPrefix(in *bufio.Reader, path string) (*bufio.Reader, error) {
	head, _ := in.Peek(format.HeadBytes)
	if logPrefix(head) == nil {
		return in, nil
	}
	data, err := readBounded(in, path, "of a log")
	if err != nil {
		return nil, err
	}
	data = format.TrimMark(data)
	for {
		prefix := logPrefix(data[:min(len(data), format.HeadBytes)])
		if prefix == nil {
			return bufferHead(bytes.NewReader(data)), nil
		}
		names, other := map[string]bool{}, false
		var out []byte
		for line := range bytes.Lines(data) {
			text := bytes.TrimRight(line, "\r\n")
			m := prefix.FindSubmatch(text)
			if m == nil {
				other = other || len(bytes.TrimSpace(text)) > 0
				out = append(out, line...)
				continue
			}
			if len(m) > 1 {
				names[string(m[1])] = true
			}
			out = append(out, line[len(m[0]):]...)
		}
		if len(names) > 1 && other {
			return bufferHead(bytes.NewReader(data)), nil // a table rather than a log
		}
		if len(names) > 1 {
			all := slices.Sorted(maps.Keys(names))
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s is the log of several jobs or services: %s", path,
				strings.Join(all[:min(len(all), 5)], ", ")), "write the lines of each into a file of its own: "+
				"grep '^"+regexp.QuoteMeta(all[0])+"' "+path+" > FILE")
		}
		data = out
	}
}

// logPrefix is the prefix that at least three of four lines have; nil if there is none.
func logPrefix(head []byte) *lazy.Regexp {
	lines, count := 0, make([]int, len(logPrefixes))
	for line := range bytes.Lines(format.TrimMark(head)) {
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		lines++
		for i, p := range logPrefixes {
			if p.Match(line) {
				count[i]++
			}
		}
	}
	for i, n := range count {
		if lines > 0 && 4*n >= 3*lines {
			return logPrefixes[i]
		}
	}
	return nil
}

// readBounded reads the rest of a file; kind says of what.
func readBounded(in io.Reader, path, kind string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, format.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Lab, "read "+path, err)
	case len(data) > format.MaxBytes:
		return nil, fault.New(fault.Invalid, "%s has more than %d MiB %s; analyze a part of it", path,
			format.MaxBytes>>20, kind)
	}
	return data, nil
}
