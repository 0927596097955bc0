// Package feed writes feeds (RSS 2.0, Atom, JSON Feed) and site maps.
package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"strings"
	"time"
	"unicode/utf8"
)

// Feed is a list of posts. Addresses are absolute.
type Feed struct {
	Title, Description, Home, Self, Language, Author string
	Items                                            []Item
}

// Item is a post. Content is its HTML; "" leaves it out.
type Item struct {
	Title, Link, Summary, Content, Author string
	Tags                                  []string
	Published, Updated                    time.Time
	Image                                 string // absolute
}

type rss struct {
	XMLName xml.Name   `xml:"rss"`
	Version string     `xml:"version,attr"`
	Atom    string     `xml:"xmlns:atom,attr"`
	Content string     `xml:"xmlns:content,attr"`
	DC      string     `xml:"xmlns:dc,attr"`
	Channel rssChannel `xml:"channel"`
}

type rssChannel struct {
	Title         string    `xml:"title"`
	Link          string    `xml:"link"`
	Description   string    `xml:"description"`
	Language      string    `xml:"language"`
	LastBuildDate string    `xml:"lastBuildDate,omitempty"`
	Generator     string    `xml:"generator"`
	Self          rssSelf   `xml:"atom:link"`
	Items         []rssItem `xml:"item"`
}

type rssSelf struct {
	Href string `xml:"href,attr"`
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr"`
}

type rssItem struct {
	Title       string   `xml:"title"`
	Link        string   `xml:"link"`
	GUID        rssGUID  `xml:"guid"`
	PubDate     string   `xml:"pubDate"`
	Creator     string   `xml:"dc:creator,omitempty"`
	Categories  []string `xml:"category"`
	Description string   `xml:"description"`
	Content     string   `xml:"content:encoded,omitempty"`
}

type rssGUID struct {
	Permanent bool   `xml:"isPermaLink,attr"`
	Value     string `xml:",chardata"`
}

const generator = "bakeoff"

// RSS writes an RSS 2.0 feed: https://www.rssboard.org/rss-specification.
func RSS(f Feed) ([]byte, error) {
	c := rssChannel{Title: f.Title, Link: f.Home, Description: f.Description, Language: f.Language,
		Generator: generator, Self: rssSelf{f.Self, "self", "application/rss+xml"}}
	if t := f.updated(); !t.IsZero() {
		c.LastBuildDate = t.Format(time.RFC1123Z)
	}
	for _, i := range f.Items {
		c.Items = append(c.Items, rssItem{Title: i.Title, Link: i.Link, GUID: rssGUID{true, i.Link},
			PubDate: i.Published.Format(time.RFC1123Z), Creator: i.Author, Categories: i.Tags,
			Description: i.Summary, Content: i.Content})
	}
	return document(rss{Version: "2.0", Atom: "http://www.w3.org/2005/Atom",
		Content: "http://purl.org/rss/1.0/modules/content/", DC: "http://purl.org/dc/elements/1.1/", Channel: c})
}

// updated is when something in the feed changed last. The time of the build would make
// every build differ.
func (f Feed) updated() (t time.Time) {
	for _, i := range f.Items {
		if i.changed().After(t) {
			t = i.changed()
		}
	}
	return t
}

func (i Item) changed() time.Time {
	if i.Updated.After(i.Published) {
		return i.Updated
	}
	return i.Published
}

type atomFeed struct {
	XMLName  xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Language string      `xml:"xml:lang,attr"`
	Title    string      `xml:"title"`
	Subtitle string      `xml:"subtitle,omitempty"`
	ID       string      `xml:"id"`
	Updated  string      `xml:"updated"`
	Author   atomPerson  `xml:"author"`
	Links    []atomLink  `xml:"link"`
	Entries  []atomEntry `xml:"entry"`
}

type atomPerson struct {
	Name string `xml:"name"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	Title     string         `xml:"title"`
	ID        string         `xml:"id"`
	Link      atomLink       `xml:"link"`
	Published string         `xml:"published"`
	Updated   string         `xml:"updated"`
	Author    *atomPerson    `xml:"author"`
	Tags      []atomCategory `xml:"category"`
	Summary   string         `xml:"summary,omitempty"`
	Content   *atomContent   `xml:"content"`
}

type atomCategory struct {
	Term string `xml:"term,attr"`
}

type atomContent struct {
	Type  string `xml:"type,attr"`
	Value string `xml:",chardata"`
}

// Atom writes an Atom feed: RFC 4287.
func Atom(f Feed) ([]byte, error) {
	updated := f.updated()
	if updated.IsZero() {
		updated = time.Unix(0, 0).UTC()
	}
	a := atomFeed{Language: f.Language, Title: f.Title, Subtitle: f.Description, ID: f.Home,
		Updated: updated.Format(time.RFC3339), Author: atomPerson{f.Author},
		Links: []atomLink{{"alternate", f.Home}, {"self", f.Self}}}
	for _, i := range f.Items {
		e := atomEntry{Title: i.Title, ID: i.Link, Link: atomLink{"alternate", i.Link}, Summary: i.Summary,
			Published: i.Published.Format(time.RFC3339), Updated: i.changed().Format(time.RFC3339)}
		if i.Author != "" {
			e.Author = &atomPerson{i.Author}
		}
		for _, t := range i.Tags {
			e.Tags = append(e.Tags, atomCategory{t})
		}
		if i.Content != "" {
			e.Content = &atomContent{"html", i.Content}
		}
		a.Entries = append(a.Entries, e)
	}
	return document(a)
}

type jsonFeed struct {
	Version     string       `json:"version"`
	Title       string       `json:"title"`
	Home        string       `json:"home_page_url"`
	Self        string       `json:"feed_url"`
	Description string       `json:"description,omitempty"`
	Language    string       `json:"language"`
	Authors     []jsonAuthor `json:"authors,omitempty"`
	Items       []jsonItem   `json:"items"`
}

type jsonAuthor struct {
	Name string `json:"name"`
}

type jsonItem struct {
	ID        string       `json:"id"`
	URL       string       `json:"url"`
	Title     string       `json:"title"`
	HTML      string       `json:"content_html,omitempty"`
	Text      string       `json:"content_text,omitempty"`
	Summary   string       `json:"summary,omitempty"`
	Image     string       `json:"image,omitempty"`
	Published string       `json:"date_published"`
	Modified  string       `json:"date_modified,omitempty"`
	Authors   []jsonAuthor `json:"authors,omitempty"`
	Tags      []string     `json:"tags,omitempty"`
}

// JSON writes a JSON Feed: https://www.jsonfeed.org/version/1.1/.
func JSON(f Feed) ([]byte, error) {
	j := jsonFeed{Version: "https://jsonfeed.org/version/1.1", Title: f.Title, Home: f.Home, Self: f.Self,
		Description: f.Description, Language: f.Language, Items: []jsonItem{}}
	if f.Author != "" {
		j.Authors = []jsonAuthor{{f.Author}}
	}
	for _, i := range f.Items {
		e := jsonItem{ID: i.Link, URL: i.Link, Title: i.Title, HTML: i.Content, Summary: i.Summary, Image: i.Image,
			Published: i.Published.Format(time.RFC3339), Tags: i.Tags}
		if i.Content == "" {
			e.Text = i.Summary // an item must have content
			e.Text = cmp.Or(e.Text, i.Title)
		}
		if !i.Updated.IsZero() {
			e.Modified = i.Updated.Format(time.RFC3339)
		}
		if i.Author != "" {
			e.Authors = []jsonAuthor{{i.Author}}
		}
		j.Items = append(j.Items, e)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", " ")
	err := enc.Encode(j)
	return out.Bytes(), err
}

// document encodes v as an XML document.
func document(v any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(xml.Header)
	enc := xml.NewEncoder(&out)
	enc.Indent("", " ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// escapeXML returns s as character data of XML, without characters that XML forbids.
func escapeXML(s string) string {
	if !strings.ContainsAny(s, `&<>"'`) && utf8.ValidString(s) {
		return s
	}
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(s)) // a buffer does not fail
	return out.String()
}
