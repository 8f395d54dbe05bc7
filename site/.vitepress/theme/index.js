import theme from 'vitepress/theme-without-fonts'
import './once.css'

export default theme
