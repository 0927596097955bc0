package offline

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/shell"
	"bakeoff/judge/format"
	formatall "bakeoff/judge/format/all"
)

// logTime is a time as servers write it before each line.
const logTime = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?`

// logPrefixes are what CI servers and other programs write before each line of a log. The first group is the name of
// a job or service; of gh run view it is a job, a tab and a step. The second one is there if the line continues the
// preceding one.
var logPrefixes = []*lazy.Regexp{
	// GitHub Actions and docker logs -t; gh run view has the job and the step in front, and GitHub a byte order mark
	// in the first line of each log. GitLab adds the stream (timestamper.go of gitlab-runner).
	lazy.Compile(`^\x{FEFF}?(?:([^\t]+\t[^\t]+)\t\x{FEFF}?)?` + logTime +
		`(?: [0-9a-f]{2}[OE](?: |$|(\+))| |$)`),
	lazy.Compile(`^\[(?:` + logTime + `|\d\d:\d\d:\d\d(?:\.\d+)?)\](?: |$)`), // Jenkins, Buildkite
	lazy.Compile(`^\d\d:\d\d:\d\d(?:\.\d+)?(?:  ?|$)`),                       // Jenkins
	lazy.Compile(`^(?:[A-Z][a-z]{2}) [ \d]\d \d\d:\d\d:\d\d(?: |$)`),         // ts
	lazy.Compile(`^([\w.-]+) +\|(?: |$)`),                                    // docker compose
	lazy.Compile(`^(#\d+)(?: \d+\.\d+)?(?: |$)`),                             // docker build
}

// maxParts bounds the jobs, steps and services of a log.
const maxParts = 10_000

// withoutLogPrefix returns the text of a log without what a CI server wrote before each line. Results of several
// jobs, steps or services are an error: they would count as those of one.
func withoutLogPrefix(in *bufio.Reader, path string) (*bufio.Reader, error) {
	head, _ := in.Peek(format.HeadBytes)
	if logPrefix(head) == nil {
		return in, nil
	}
	data, err := readBounded(in, path, "of a log")
	if err != nil {
		return nil, err
	}
	if data, err = textOfLog(format.TrimMark(data), path); err != nil {
		return nil, err
	}
	return bufferHead(bytes.NewReader(data)), nil
}

// textOfLog returns the text of a log without prefixes.
func textOfLog(data []byte, path string) ([]byte, error) {
	prefix := logPrefix(data[:min(len(data), format.HeadBytes)])
	if prefix == nil {
		return data, nil
	}
	var all, other []byte
	parts, before, number := map[string][]byte{}, map[string]int{}, 0 // by name: the text, and the lines before it
	for line := range bytes.Lines(data) {
		m := prefix.FindSubmatch(bytes.TrimRight(line, "\r\n"))
		if m == nil {
			all, other = append(all, line...), append(other, line...)
			number++
			continue
		}
		line = line[len(m[0]):]
		continues := len(m) > 2 && len(m[2]) > 0
		if len(m) > 1 {
			name := string(m[1])
			if _, known := parts[name]; !known {
				if before[name] = number; len(parts) == maxParts {
					return data, nil // a table rather than a log
				}
			}
			parts[name] = appendLine(parts[name], line, continues)
		}
		all = appendLine(all, line, continues)
		number++
	}
	if len(parts) < 2 {
		return textOfLog(all, path)
	}
	names, jobs := slices.Sorted(maps.Keys(parts)), map[string]bool{}
	var found []string // names with results
	for _, name := range names {
		job, _, step := strings.Cut(name, "\t")
		if !step && name[0] == '#' { // a step of docker build
			job = ""
		}
		jobs[job] = true
		if hasResults(parts[name], path) {
			found = append(found, name)
		}
	}
	switch prose := len(bytes.TrimSpace(other)) > 0; {
	case len(found) > 1:
		return nil, errSeveral(path, found, found[0])
	case len(found) == 1 && len(jobs) > 1: // the others may have failed
		return nil, errSeveral(path, names, found[0])
	case len(found) == 1 && !hasResults(other, path):
		// The lines of the file keep their numbers, unless the results are beyond the head then.
		lines := bytes.Repeat([]byte{'\n'}, before[found[0]])
		if len(lines) > format.HeadBytes/2 {
			lines = nil
		}
		return textOfLog(append(lines, parts[found[0]]...), path)
	case len(found) == 0 && len(jobs) == 1:
		return textOfLog(all, path)
	case len(found) == 0 && !prose:
		return nil, errSeveral(path, names, names[0])
	}
	return data, nil // a table rather than a log
}

// appendLine adds a line to a text, or to its last line.
func appendLine(text, line []byte, continues bool) []byte {
	if continues {
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	}
	return append(text, line...)
}

// hasResults reports whether a part of a log may have results of a benchmark program.
func hasResults(part []byte, path string) bool {
	text, err := textOfLog(part, path)
	return err != nil || len(text) > format.HeadBytes || len(format.Recognize(formatall.Formats(), text)) > 0
}

// errSeveral refuses the log of several jobs, steps or services, with a command that selects the lines of one.
func errSeveral(path string, names []string, one string) error {
	shown := lists.Map(names[:min(len(names), 5)], func(name string) string {
		return strings.Replace(name, "\t", " / ", 1)
	})
	text := func(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
	command := []string{"awk", "$1 == " + text(one)}
	if job, step, ok := strings.Cut(one, "\t"); ok {
		command = []string{"awk", "-F", `\t`, "$1 == " + text(job) + " && $2 == " + text(step)}
	}
	if path != standardInput {
		command = append(command, path)
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s is the log of several jobs, steps or services: %s", path,
		strings.Join(shown, ", ")), "write the lines of each into a file of its own: "+shell.Quote(command...)+" > FILE")
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
