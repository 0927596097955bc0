package load

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"

	"bakeoff/base/fault"
)

// The bounds of a list of URLs.
const (
	maxURLs     = 10000
	maxURLsText = 8 << 20 // bytes
	maxURLLine  = 8 << 10
)

// URL is a request and its expected response. A body is either fixed (Length,
// Sum; missing values come from the first correct response, and all others are
// compared with it byte by byte), or it varies, as for a dynamic page: then
// Contains, Min and Max are checked for every one.
type URL struct {
	Path   string // escaped, as in the request
	Status int    // the expected status; 0 is any from 200 to 299

	Length int64  // of the body in bytes; -1 if not given
	Sum    string // SHA-256 of the body in hexadecimal; "" if not given

	Contains string // text that a varying body contains
	Min, Max int64  // bounds of the length of a varying body in bytes; Max 0 is none
}

// Varies reports whether two correct responses may differ.
func (u URL) Varies() bool { return u.Contains != "" || u.Min != 0 || u.Max != 0 }

// Check returns an error if u is invalid.
func (u URL) Check() error {
	switch {
	case !strings.HasPrefix(u.Path, "/") || strings.ContainsFunc(u.Path, unprintable):
		return fmt.Errorf("invalid path %q: it must begin with / and be escaped", u.Path)
	case u.Status != 0 && (u.Status < 200 || u.Status > 599):
		return fmt.Errorf("status must be from 200 to 599 (got %d)", u.Status)
	case u.Length < -1 || u.Length > maxBody || u.Min < 0 || u.Min > maxBody || u.Max < 0 || u.Max > maxBody:
		return fmt.Errorf("a length must be from 0 to %d", maxBody)
	case u.Max != 0 && u.Max < u.Min:
		return fmt.Errorf("max=%d is less than min=%d", u.Max, u.Min)
	case u.Sum != "" && !isSum(u.Sum):
		return fmt.Errorf("sha256 must be a SHA-256 in lower-case hexadecimal (got %s)", u.Sum)
	case u.Varies() && (u.Length >= 0 || u.Sum != ""):
		return fmt.Errorf("%s: use either length and sha256 (a fixed body) or contains, min and max (a varying body)", u.Path)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }

// FormatURLs formats a list for ParseURLs.
func FormatURLs(urls []URL) []byte {
	var b bytes.Buffer
	number := func(name string, n, unset int64) {
		if n != unset {
			fmt.Fprintf(&b, " %s=%d", name, n)
		}
	}
	for _, u := range urls {
		b.WriteString(u.Path)
		number("status", int64(u.Status), 0)
		number("length", u.Length, -1)
		if u.Sum != "" {
			b.WriteString(" sha256=" + u.Sum)
		}
		if u.Contains != "" {
			b.WriteString(" contains=" + url.QueryEscape(u.Contains))
		}
		number("min", u.Min, 0)
		number("max", u.Max, 0)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// ParseURLs parses a list of URLs, one per line: a path, and then expectations
// of the response in any order:
//
//	/index.html length=4069 sha256=…
//	/node/7 contains=Powered+by min=2000 max=90000
//	/old status=301
//
// contains is escaped as in a query. Empty lines and lines that begin with #
// are ignored. Errors name the line.
func ParseURLs(text []byte) ([]URL, error) {
	if len(text) > maxURLsText {
		return nil, fmt.Errorf("the list has %d bytes; the limit is %d", len(text), maxURLsText)
	}
	var urls []URL
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxURLLine)
	n := 0
	for lines.Scan() {
		n++
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if len(urls) == maxURLs {
			return nil, fmt.Errorf("line %d: more than %d URLs", n, maxURLs)
		}
		u, err := parseURL(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		urls = append(urls, u)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("the list contains no URL")
	}
	return urls, nil
}

// parseURL reads the fields of a line.
func parseURL(fields []string) (URL, error) {
	u := URL{Path: fields[0], Length: -1}
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		var err error
		switch name {
		case "status":
			u.Status, err = strconv.Atoi(value)
		case "length":
			u.Length, err = natural(value)
		case "sha256":
			u.Sum = value
		case "contains":
			u.Contains, err = url.QueryUnescape(value)
		case "min":
			u.Min, err = natural(value)
		case "max":
			u.Max, err = natural(value)
		default:
			return URL{}, fmt.Errorf("unknown field %q; use status, length, sha256, contains, min or max", name)
		}
		if err != nil {
			return URL{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return u, u.Check()
}

func natural(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		return 0, fmt.Errorf("%d is negative", n)
	}
	return n, err
}

// ReadURLs reads a list from a file on this machine.
func ReadURLs(path string) ([]URL, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "urls", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "urls: %s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxURLsText+1))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "urls", err)
	}
	urls, err := ParseURLs(text)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "urls: "+path, err)
	}
	return urls, nil
}

// ListSum identifies a list.
func ListSum(urls []URL) string { return SumOf(FormatURLs(urls)) }

// MeanLength is the mean length of the bodies of a list, in bytes; least
// replaces unknown lengths.
func MeanLength(urls []URL, least int64) int64 {
	var sum float64
	for _, u := range urls {
		sum += float64(max(u.Length, u.Min, least))
	}
	return int64(math.Round(sum / float64(cmp.Or(len(urls), 1))))
}
