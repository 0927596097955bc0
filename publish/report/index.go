package report

import (
	"bytes"
	"html"
)

// The places of the link to an index in a page: a report begins its header with it.
const (
	headerStart = "<div class=\"sheet\">\n<header>"
	backStart   = `<p class="back">`
	backEnd     = "</p>"
)

// Linked returns the page of a run, as Write wrote it in this version or another, with a
// link to the index of runs at the address href, relative to the page; "" is without the
// link. The result is the page itself if it is so already, or is another page.
func Linked(page []byte, href string) []byte {
	at := bytes.Index(page, []byte(headerStart))
	if at < 0 {
		return page
	}
	at += len(headerStart)
	rest, link := page[at:], ""
	if bytes.HasPrefix(rest, []byte(backStart)) {
		if end := bytes.Index(rest, []byte(backEnd)); end >= 0 {
			rest = rest[end+len(backEnd):]
		}
	}
	if href != "" {
		link = backStart + `<a href="` + html.EscapeString(href) + `">All runs</a>` + backEnd
	}
	if bytes.HasPrefix(page[at:], []byte(link)) && len(page) == at+len(link)+len(rest) {
		return page
	}
	return bytes.Join([][]byte{page[:at], []byte(link), rest}, nil)
}
