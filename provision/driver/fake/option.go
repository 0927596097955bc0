package fake

import (
	"fmt"
	"strings"
)

// Options parses args as getopt(3) does: letters names the flags, each
// followed by a colon where it takes a value. A flag that is not named is an
// error, and so is a missing value. A flag may come more than once.
func Options(args []string, letters string) (flags map[byte][]string, rest []string, err error) {
	flags = map[byte][]string{}
	for len(args) > 0 {
		a := args[0]
		if a == "--" {
			return flags, args[1:], nil
		}
		if len(a) < 2 || a[0] != '-' {
			break
		}
		args = args[1:]
		for i := 1; i < len(a); i++ {
			at := strings.IndexByte(letters, a[i])
			if at < 0 || a[i] == ':' {
				return nil, nil, fmt.Errorf("illegal option -- %c", a[i])
			}
			if at+1 >= len(letters) || letters[at+1] != ':' {
				flags[a[i]] = append(flags[a[i]], "")
				continue
			}
			value := a[i+1:]
			if value == "" {
				if len(args) == 0 {
					return nil, nil, fmt.Errorf("option requires an argument -- %c", a[i])
				}
				value, args = args[0], args[1:]
			}
			flags[a[i]] = append(flags[a[i]], value)
			break
		}
	}
	return flags, args, nil
}

// Last is the last value of a flag, "" when it was not given.
func Last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
