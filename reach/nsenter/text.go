package nsenter

// What package strings does, which initializes late.

// index returns the position of c in s, -1 if s has none.
func index(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}

// cut returns what is before and after the first c; without c, s is before.
func cut(s string, c byte) (before, after string, found bool) {
	if i := index(s, c); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// split returns the parts of s between the bytes c.
func split(s string, c byte) []string {
	var out []string
	for {
		part, rest, found := cut(s, c)
		out = append(out, part)
		if !found {
			return out
		}
		s = rest
	}
}

// fields returns the words of s between blanks and line ends.
func fields(s string) []string {
	var out []string
	for start := 0; start < len(s); {
		end := start
		for end < len(s) && s[end] != ' ' && s[end] != '\n' && s[end] != '\t' {
			end++
		}
		if end > start {
			out = append(out, s[start:end])
		}
		start = end + 1
	}
	return out
}

// contains reports whether one of list is s.
func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// lastSlash returns the position of the last slash, -1 if there is none.
func lastSlash(s string) int {
	i := len(s) - 1
	for i >= 0 && s[i] != '/' {
		i--
	}
	return i
}

// parentOf returns the directory of a path, and base the rest.
func parentOf(path string) string {
	switch i := lastSlash(path); i {
	case -1:
		return "."
	case 0:
		return "/"
	default:
		return path[:i]
	}
}

func baseName(path string) string { return path[lastSlash(path)+1:] }

// quoted returns s in quotes, for messages.
func quoted(s string) string { return `"` + s + `"` }
