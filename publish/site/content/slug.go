package content

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"bakeoff/base/hexsum"
)

// maxSlug bounds a slug in bytes: a file name has at most 255, and needs room for a suffix.
const maxSlug = 120

// latin maps letters of Latin scripts to ASCII, as addresses are written.
var latin = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "å", "a",
	"à", "a", "á", "a", "â", "a", "ã", "a", "ç", "c", "è", "e", "é", "e", "ê", "e", "ë", "e", "ì", "i", "í", "i",
	"î", "i", "ï", "i", "ñ", "n", "ò", "o", "ó", "o", "ô", "o", "õ", "o", "ù", "u", "ú", "u", "û", "u", "ý", "y",
	"ł", "l", "ś", "s", "ź", "z", "ż", "z", "ć", "c", "ń", "n", "ą", "a", "ę", "e", "č", "c", "š", "s", "ž", "z",
	"+", "-plus", "#", "-sharp", "&", "-and-", "'", "", "’", "")

// Slug returns s as one segment of an address: lower-case letters and digits of any
// script, and hyphens between them. It is "" if s has none. It never contains a slash,
// a dot or a space, so it is also a safe file name.
func Slug(s string) string {
	var out strings.Builder
	hyphen := false
	for _, r := range latin.Replace(strings.ToLower(s)) {
		if r == utf8.RuneError || !(unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || r == '_') {
			hyphen = out.Len() > 0
			continue
		}
		if out.Len()+utf8.RuneLen(r)+1 > maxSlug {
			break
		}
		if hyphen {
			out.WriteByte('-')
			hyphen = false
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Short is a short name made of s, for what has no other.
func Short(s string) string {
	return hexsum.Of(s)[:8]
}

// Address returns the folder of a post below the output, by a format such as
// Year/Month/Day/slug.
func Address(format string, p Post) string {
	parts := strings.Split(format, "/")
	for i, part := range parts {
		switch strings.ToLower(part) {
		case "year":
			parts[i] = fmt.Sprintf("%04d", p.Date.Year())
		case "month":
			parts[i] = fmt.Sprintf("%02d", p.Date.Month())
		case "day":
			parts[i] = fmt.Sprintf("%02d", p.Date.Day())
		case "slug":
			parts[i] = p.Slug
		}
	}
	return strings.Join(parts, "/")
}
