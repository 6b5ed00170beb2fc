"""X"""
from app.console.page import PageRouter
router = PageRouter()
