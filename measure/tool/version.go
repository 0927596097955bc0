package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
)

// Check says before the first trial what is known of a version of the tool's program. The
// error, of kind fault.Subject, refuses one that is older than Doc.Least; the warning is
// about one outside of the range that Parse was tried with, "" inside.
func (d Doc) Check(version string) (warning string, err error) {
	if d.Least != "" && compareVersions(version, d.Least) < 0 {
		return "", fault.WithFix(fault.New(fault.Subject, "version %s is too old: bakeoff reads the output of version %s "+
			"and newer", version, d.Least), "install a newer one")
	}
	if d.isTried(version) {
		return "", nil
	}
	return fmt.Sprintf("warning: bakeoff was tested with the output of %s %s, and this is version %s; compare a result "+
		"with the output of the program", d.Program, d.Range(), version), nil
}

// isTried tells whether a version is not older than the series that were tried, nor newer.
func (d Doc) isTried(version string) bool {
	if len(d.Tried) == 0 {
		return true
	}
	return compareVersions(version, d.Tried[0]) >= 0 && compareVersions(version, d.Tried[len(d.Tried)-1]) <= 0
}

// Range is the range of versions that Parse was tried with, as text.
func (d Doc) Range() string {
	if len(d.Tried) < 2 {
		return strings.Join(d.Tried, "")
	}
	return d.Tried[0] + " to " + d.Tried[len(d.Tried)-1]
}

// Versions says for people which versions are known.
func (d Doc) Versions() string {
	text := "tested with " + strings.Join(d.Tried, ", ") + "; before the first trial, bakeoff "
	if d.Least != "" {
		text += "refuses versions older than " + d.Least + ", and "
	}
	if len(d.Tried) < 2 {
		return text + "warns about other versions"
	}
	return text + "warns about versions outside this range"
}

// Unread returns the error of output that cannot be read, with the version of the program
// and, if that was not tried, the versions that were.
func (d Doc) Unread(version string, err error) error {
	if err == nil || version == "" {
		return fault.Op(d.Name, err)
	}
	if err = fault.Op(d.Name+" "+version, err); fault.Is(err, fault.Subject) || d.isTried(version) {
		return err
	}
	return fault.WithFix(err, "install version "+d.Range()+", which bakeoff was tried with")
}

// compareVersions compares the first parts of a version, as many as series has.
func compareVersions(version, series string) int {
	want := numbersOf(series)
	have := numbersOf(version)
	return slices.CompareFunc(have[:min(len(have), len(want))], want, cmp.Compare[int])
}

// numbersOf are the numbers of a version; letters behind them do not count.
func numbersOf(version string) (out []int) {
	for part := range strings.SplitSeq(version, ".") {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}
