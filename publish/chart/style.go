package chart

import _ "embed"

// Colors declares the colors of bakeoff's pages and their figures as CSS variables on
// :root, light and dark. A page with a theme of its own declares the same names.
//
//go:embed colors.css
var Colors string

// Style is how figures look: rules for the classes that a Canvas writes, in the colors
// that the page declares.
//
//go:embed figure.css
var Style string
