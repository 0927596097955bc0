// Package content reads posts and pages: BSSG's layout and front matter as they are.
//
// Files may come from a stranger. Every read is bounded, and text is made harmless once,
// here (package safetext).
package content

import (
	"time"
)

// Bounds of what a file may hold.
const (
	MaxFile  = 16 << 20 // bytes of a post
	maxFront = 64 << 10 // bytes of front matter
	maxTags  = 100
)

// Post is a post or a page without its text. Its JSON, which a site keeps of every post for
// the next build, leaves out what is empty.
type Post struct {
	File   string // below the site, with slashes
	Page   bool   `json:",omitempty"` // from the folder of pages
	Digest string // of the file's bytes

	Title       string    `json:",omitempty"`
	Slug        string    `json:",omitempty"`
	Description string    `json:",omitempty"`
	Image       string    `json:",omitempty"`
	Caption     string    `json:",omitempty"`
	Author      string    `json:",omitempty"`
	Email       string    `json:",omitempty"`
	Language    string    `json:",omitempty"` // "" for that of the site
	Date        time.Time `json:",omitzero"`
	Updated     time.Time `json:",omitzero"` // zero if the file does not say
	From        time.Time `json:",omitzero"` // not published before; zero: Date
	Until       time.Time `json:",omitzero"` // not published from then on; zero: always
	Tags        []string  `json:",omitempty"`
	Secondary   bool      `json:",omitempty"`
	Draft       bool      `json:",omitempty"`

	// What the text says.
	Excerpt string   `json:",omitempty"` // its beginning as plain text
	Words   int      `json:",omitempty"`
	Images  []string `json:",omitempty"` // addresses, without those of other servers
	Runs    []string `json:",omitempty"` // references to runs: ID or ID/figure
	Terms   string   `json:",omitempty"` // headings and words that search finds, in lower case
	RawHTML bool     `json:",omitempty"` // the text has HTML of its own
}

// Due reports whether a post is published at a time. A page has no date to wait for, but may
// have its own bounds.
func (p Post) Due(now time.Time) bool {
	return !p.DueFrom().After(now) && (p.Until.IsZero() || now.Before(p.Until))
}

// DueFrom returns from when on a post is published; zero: always.
func (p Post) DueFrom() time.Time {
	if !p.Page && p.Date.After(p.From) {
		return p.Date
	}
	return p.From
}

// Doc is a parsed file: its front matter, and the text after it.
type Doc struct {
	Post
	Body     []byte
	Line     int // at which Body begins
	Warnings []string
}
