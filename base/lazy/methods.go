package lazy

// These methods are those of regexp.Regexp.

func (r *Regexp) Match(b []byte) bool { return r.re().Match(b) }

func (r *Regexp) MatchString(s string) bool { return r.re().MatchString(s) }

func (r *Regexp) Find(b []byte) []byte { return r.re().Find(b) }

func (r *Regexp) FindAllIndex(b []byte, n int) [][]int { return r.re().FindAllIndex(b, n) }

func (r *Regexp) FindAllString(s string, n int) []string { return r.re().FindAllString(s, n) }

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.re().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte { return r.re().FindAllSubmatch(b, n) }

func (r *Regexp) FindIndex(b []byte) []int { return r.re().FindIndex(b) }

func (r *Regexp) FindString(s string) string { return r.re().FindString(s) }

func (r *Regexp) FindStringIndex(s string) []int { return r.re().FindStringIndex(s) }

func (r *Regexp) FindStringSubmatch(s string) []string { return r.re().FindStringSubmatch(s) }

func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.re().FindSubmatch(b) }

func (r *Regexp) FindSubmatchIndex(b []byte) []int { return r.re().FindSubmatchIndex(b) }

func (r *Regexp) ReplaceAll(b, by []byte) []byte { return r.re().ReplaceAll(b, by) }

func (r *Regexp) ReplaceAllFunc(b []byte, by func([]byte) []byte) []byte {
	return r.re().ReplaceAllFunc(b, by)
}

func (r *Regexp) ReplaceAllString(s, by string) string { return r.re().ReplaceAllString(s, by) }

func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.re().ReplaceAllStringFunc(s, by)
}

func (r *Regexp) Split(s string, n int) []string { return r.re().Split(s, n) }
