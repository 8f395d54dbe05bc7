// Package site tests the site that is made of docs/, and the pictures on it.
package site
