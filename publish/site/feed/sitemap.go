package feed

import (
	"bytes"
	"fmt"
	"time"
)

// MaxPages is how many pages one site map may hold: https://www.sitemaps.org/protocol.html.
const MaxPages = 50000

// Page is one line of a site map. Addresses are absolute.
type Page struct {
	Address    string
	Changed    time.Time // zero: not known
	Alternates []Alternate
}

// Alternate is the same page in another language.
type Alternate struct{ Language, Address string }

// Sitemap writes a site map of at most MaxPages pages.
func Sitemap(pages []Page) []byte {
	var out bytes.Buffer
	out.Grow(len(pages) * 120)
	out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">` + "\n")
	for _, p := range pages {
		out.WriteString("<url><loc>" + escapeXML(p.Address) + "</loc>")
		if !p.Changed.IsZero() {
			out.WriteString("<lastmod>" + p.Changed.Format(time.RFC3339) + "</lastmod>")
		}
		for _, a := range p.Alternates {
			fmt.Fprintf(&out, `<xhtml:link rel="alternate" hreflang="%s" href="%s"/>`, escapeXML(a.Language),
				escapeXML(a.Address))
		}
		out.WriteString("</url>\n")
	}
	out.WriteString("</urlset>\n")
	return out.Bytes()
}

// Index writes the index of several site maps.
func Index(addresses []string) []byte {
	var out bytes.Buffer
	out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	for _, a := range addresses {
		out.WriteString("<sitemap><loc>" + escapeXML(a) + "</loc></sitemap>\n")
	}
	out.WriteString("</sitemapindex>\n")
	return out.Bytes()
}
